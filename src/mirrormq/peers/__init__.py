"""Links between nodes without sockets or clocks: who may speak, how messages are cut, who is alive."""
