"""Two FIFO consumers in a world in memory: the first one publishes in order to the second one."""
