"""Plans under load: queues, batchers and routing in front of the clock."""
