"""YAML files of workloads and deployments."""
