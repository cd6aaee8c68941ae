"""Lua script for HAProxy: a node answers before a client is connected to it.

HAProxy chooses a server before it connects, and cannot choose another one afterwards. The kernel accepts
connections for a frozen node, so until the checks notice it, clients are connected to a node that never
answers. The script therefore sends the protocol header to the chosen node first, as the check does.
"""

from __future__ import annotations

HAPROXY_LUA = """\
-- Written by 'mirrormq haproxy-config --lua'. HAProxy loads it at its start.
local HEADER = {prefix}"AMQP\\0\\0\\9\\1"
local START = "\\1\\0\\0\\0"
-- Clients that wait for the answer of a node: those that arrive together choose different nodes.
local asking = {{ {nodes} }}
-- Second in which a node last gave no answer: such a node is asked last until the checks have judged it.
local silent = {{}}

local function answers(address)
  local host, port = address:match("^(.*):(%d+)$")
  if host:find(":") then host = "[" .. host .. "]" end
  local socket = core.tcp()
  socket:settimeout({timeout_s})
  local reply
  if socket:connect(host, tonumber(port)) then
    socket:send(HEADER)
    reply = socket:receive(#START)
  end
  socket:close()
  return reply == START
end

core.register_action("find_node", {{ "tcp-req" }}, function(transaction)
  local nodes, now = {{}}, core.now().sec
  for name, clients in pairs(asking) do
    local server = core.backends["{backend}"].servers[name]
    local state = server:get_stats()
    if state.status:sub(1, 2) == "UP" then
      local is_silent = now - (silent[name] or 0) <= {silent_s}
      local rank = tonumber(state.scur) + clients + (is_silent and {clients_max} or 0)
      table.insert(nodes, {{ name = name, address = server:get_addr(), rank = rank }})
    end
  end
  table.sort(nodes, function(one, other) return one.rank < other.rank end)
  for _, node in ipairs(nodes) do
    asking[node.name] = asking[node.name] + 1
    local found = answers(node.address)
    asking[node.name] = asking[node.name] - 1
    if found then
      transaction:set_var("txn.node", node.name)
      return
    end
    silent[node.name] = core.now().sec
  end
end, 0)
"""

HAPROXY_FINDER = """\
    # A node answers before a client is connected to it; at most {timeout_s} s for each node that does not.
    tcp-request inspect-delay {delay_s}s
    tcp-request content lua.find_node
{rules}
"""

ANSWER_TIMEOUT_S = 1
"""Time for the answer of a node, that of the checks."""

SILENT_S = 3
"""Time in which the checks notice a frozen node."""

CLIENTS_MAX = 1_000_000
"""More clients than a node can have."""


def lua_script(backend: str, servers: int, proxy_protocol: bool) -> str:
    """Return the script for the servers of a backend, node1 and so on."""
    return HAPROXY_LUA.format(
        prefix='"PROXY UNKNOWN\\r\\n" .. ' if proxy_protocol else "",
        nodes=", ".join(f"{name} = 0" for name in _names(servers)),
        backend=backend,
        timeout_s=ANSWER_TIMEOUT_S,
        silent_s=SILENT_S,
        clients_max=CLIENTS_MAX,
    )


def finder_lines(servers: int) -> str:
    """Return the lines of a `listen` section with this number of servers."""
    rules = "\n".join(
        f"    use-server {name} if {{ var(txn.node) -m str {name} }}" for name in _names(servers)
    )
    delay_s = (servers + 1) * ANSWER_TIMEOUT_S
    return HAPROXY_FINDER.format(timeout_s=ANSWER_TIMEOUT_S, delay_s=delay_s, rules=rules)


def _names(servers: int) -> list[str]:
    return [f"node{number}" for number in range(1, servers + 1)]
