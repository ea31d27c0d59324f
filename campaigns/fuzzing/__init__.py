"""What is fuzzed, and how: `readers` lists the targets, `guard` says what is a fault, `process` runs one target."""
