"""What tries to break it: the simulator, crash points, fuzzers and the soak."""
