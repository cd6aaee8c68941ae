"""What every node knows: vhosts, users, exchanges, queues, bindings, policies, parameters."""
