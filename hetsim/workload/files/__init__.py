"""What a YAML file may say of a workload or a deployment."""
