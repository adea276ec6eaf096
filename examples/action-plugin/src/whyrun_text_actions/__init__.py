"""Actions for Whyrun workflows."""
