"""One module for each API that clients call, and the table that lists them all."""
