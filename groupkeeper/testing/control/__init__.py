"""The broker over HTTP, for tests in any language: `groupkeeper serve --control`."""
