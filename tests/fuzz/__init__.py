"""Random inputs, problems and interruptions: `make fuzz`, and a short version in the tests."""
