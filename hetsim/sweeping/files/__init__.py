"""YAML schema of a sweep's grid."""
