"""The cluster: who is a member, who is well, who may go on when nodes lose sight of each other."""
