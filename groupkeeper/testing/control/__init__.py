"""HTTP control API of the test broker, for tests in any language: `groupkeeper serve --control`."""
