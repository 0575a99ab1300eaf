"""One folder for each Lambda function."""
