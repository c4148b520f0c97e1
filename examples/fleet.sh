#!/usr/bin/env bash
# A fleet to try out: three nodes and a PostgreSQL of their own on this machine, in a temporary folder that
# is removed afterwards. Kill a node and watch its agents start on another.
#
#   examples/fleet.sh           # takes commands, and lists them
#   examples/fleet.sh --check   # kills a node by itself; exits with 0 if its agents continued elsewhere
#
# Needs relight (in PATH, or built here) and the programs of PostgreSQL; installs and changes nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nodes=(a b c)
agents=(writer reviewer coder) # one for each node, by their names
unset "${!RELIGHT_@}" NOTIFY_SOCKET PGPASSWORD

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "fleet: $*"
  exit 1
}

case ${1:-} in
'') check= ;;
--check) check=1 ;;
*) sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}" && exit 2 ;;
esac

relight=$(PATH="$PATH:$root/target/release:$root/target/debug" command -v relight) ||
  fail "there is no relight: cargo build --release in $root makes one"
export PATH="${relight%/*}:$PATH" # for the agents
initdb=$(command -v initdb || { compgen -G '/usr/lib/postgresql/*/bin/initdb' || compgen -G '/usr/pgsql-*/bin/initdb'; } | sort -V | tail -n 1) || true
postgres=$(dirname "$(readlink -f "${initdb:-none}")")
for program in initdb pg_ctl postgres psql; do
  [ -x "$postgres/$program" ] || fail "there is no $program of PostgreSQL: install its server (Debian: apt install postgresql)"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/relight-fleet-XXXXXX")
chmod 711 "$work" # the database's user has to get through

# pids_of NODE: every live process of a node (daemon, shims and agents), as on a machine of its own.
pids_of() {
  {
    grep -lszxF "RELIGHT_HOME=$work/$1" /proc/[0-9]*/environ
    grep -lsz "^$work/$1[/]agents/" /proc/[0-9]*/cmdline # not what looks for it
  } | cut -d/ -f3 | sort -u
}

signal_all() { # signal_all SIGNAL PID…: those that are gone meanwhile do not matter
  local name=$1
  shift
  [ "$#" = 0 ] || kill "-$name" "$@" 2>/dev/null || true
}

clean_up() {
  local node
  trap '' INT TERM
  for node in "${nodes[@]}"; do
    # Twice, for processes that a daemon was just starting.
    signal_all KILL $(pids_of "$node")
    signal_all KILL $(pids_of "$node")
  done
  stop_database
  rm -rf "$work"
}

# PostgreSQL does not run as root.
as_owner() {
  if [ "$(id -u)" = 0 ]; then
    (cd "$work/database" && exec setpriv --reuid="$owner" --regid="$owner" --clear-groups "$@")
  else
    "$@"
  fi
}

make_database() {
  mkdir -m 700 "$work/database"
  if [ "$(id -u)" = 0 ]; then
    owner=$(id -u postgres 2>/dev/null || id -u nobody)
    chown "$owner" "$work/database"
    as_owner test -w "$work/database" || fail "user $(id -un "$owner") cannot reach $work: set TMPDIR to another folder"
  fi
  as_owner "$postgres/initdb" -D "$work/database/data" -U relight -A trust -E UTF8 --locale=C >"$work/initdb.log" 2>&1 ||
    fail "initdb: $(tail -n 3 "$work/initdb.log")"
  local try
  for try in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 30000))
    start_database && break
    [ "$try" != 5 ] || fail "PostgreSQL does not start: $(tail -n 3 "$work/database/log")"
  done
  # A user for each node, so that one of them can be cut off.
  for node in "${nodes[@]}"; do sql "CREATE ROLE $node LOGIN SUPERUSER"; done
}

start_database() {
  as_owner "$postgres/pg_ctl" -D "$work/database/data" -l "$work/database/log" -w -s \
    -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=100" start 2>/dev/null
}

stop_database() { # at once, as a power cut would
  [ ! -e "$work/database/data/postmaster.pid" ] ||
    as_owner "$postgres/pg_ctl" -D "$work/database/data" -m immediate -w -s stop 2>/dev/null || true
}

sql() {
  "$postgres/psql" -X -q -h 127.0.0.1 -p "$port" -U relight -d postgres -v ON_ERROR_STOP=1 -c "$1" >/dev/null
}

make_agents() {
  local agent
  # Writes books. Every page is a step, so each is written once, on whichever node; complains about a
  # second copy of itself.
  cat >"$work/agent.sh" <<'AGENT'
#!/usr/bin/env bash
exec 9>>"$1.only"
flock -n 9 || echo "$1 runs twice" >>complaints
book=1
while :; do
  # The book that was cut off, or the next one: a finished one cannot be started again (exit 1).
  until started=$(relight task start "$1-$book" --strategy resume --export 2>/dev/null); do
    [ $? = 1 ] || exit 75
    book=$((book + 1))
  done
  eval "$started"
  for page in {1..20}; do
    relight step run "page $page" -- bash -c 'sleep 1; echo "$0: page $1 on node $RELIGHT_NODE" | tee -a pages' "$1-$book" "$page"
  done 9>&-
  relight task done
done
AGENT
  chmod +x "$work/agent.sh"
  cat >"$work/relight.toml" <<'CONFIG'
[node]
lease = "4s"            # short, so that there is little to wait for
renew = "1s"

[recovery]
cooldown = "1s"
max_attempts = 100      # you will kill them often
CONFIG
  for agent in "${agents[@]}"; do
    printf '\n[[agent]]\nname = "%s"\ncommand = ["./agent.sh", "%s"]\n' "$agent" "$agent" >>"$work/relight.toml"
  done
}

# on NODE COMMAND…: relight on that node.
on() {
  local node=$1
  shift
  (cd "$work" && RELIGHT_HOME="$work/$node" \
    RELIGHT_STORE="postgres://$node@127.0.0.1:$port/postgres?sslmode=disable" "$relight" "$@")
}

start_node() {
  signal_all KILL $(daemon_of "$1" || true)
  # In a session of its own: Ctrl-C here is only for this script.
  (cd "$work" && RELIGHT_HOME="$work/$1" \
    RELIGHT_STORE="postgres://$1@127.0.0.1:$port/postgres?sslmode=disable" \
    exec setsid "$relight" up --node "$1" --listen 127.0.0.1:0 >>"$work/$1.log" 2>&1 </dev/null) &
  echo $! >"$work/$1.pid"
  disown
}

# daemon_of NODE: the pid of its daemon; fails when it is gone, even if another process has that pid now.
daemon_of() {
  local pid
  pid=$(cat "$work/$1.pid" 2>/dev/null) && grep -qszxF "RELIGHT_HOME=$work/$1" "/proc/$pid/environ" && echo "$pid"
}

to_daemon() { # to_daemon SIGNAL NODE
  local pid
  pid=$(daemon_of "$2") || { say "the daemon of $2 does not run; start $2 starts it" && return 1; }
  kill "-$1" "$pid"
}

within() { # within SECONDS WHAT COMMAND…
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "waited in vain for: $what; what the nodes said:
$(tail -n 5 "$work"/?.log)"
    sleep 0.1
  done
}

# A node that answers, to ask about the others.
any_node() {
  local node
  for node in "${nodes[@]}"; do
    if on "$node" node list >/dev/null 2>&1; then echo "$node" && return; fi
  done
  return 1
}

status() {
  local asked
  asked=$(any_node) || { say "the database does not answer; try: database on" && return; }
  on "$asked" node list
  echo
  on "$asked" ps
}

links() {
  local node
  for node in "${nodes[@]}"; do
    printf 'node %s  %s\n' "$node" "$(on "$node" dashboard --print 2>/dev/null || echo 'is not up')"
  done
}

field_of() { on "$1" ps "$2" | sed -n "s/^$3 *//p"; }
runs() { [ -n "$(field_of "$1" "$2" pid)" ]; }
runs_elsewhere() { runs "$1" "$2" && [ "$(field_of "$1" "$2" node)" != "$3" ]; }

# The commands.
kill_node() { signal_all KILL $(pids_of "$1") && rm -f "$work/$1.pid" && say "node $1 is dead, with all it ran; others take over within 5 s"; }
crash_node() { to_daemon KILL "$1" && say "only the daemon of $1 is dead; start $1 within a second and nothing is restarted; later its shims end what it ran, before others take over"; }
freeze_node() { to_daemon STOP "$1" && say "the daemon of $1 is frozen; its shims end what it ran, others take over; thaw $1 wakes it"; }
thaw_node() { to_daemon CONT "$1" && say "node $1 wakes, sees that its lease ran out, and joins anew"; }
leave_node() { to_daemon TERM "$1" && say "node $1 leaves, and hands over at once"; }
cut_node() {
  sql "ALTER ROLE $1 NOLOGIN"
  sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '$1'"
  say "node $1 cannot reach the database; it ends what it runs before its lease ends; heal $1 lets it in again"
}
heal_node() { sql "ALTER ROLE $1 LOGIN" && say "node $1 can reach the database again"; }

commands() {
  cat >&2 <<'TEXT'
  status             the nodes, and where each agent is
  kill NODE          the machine dies, with all that runs on it
  crash NODE         its daemon dies, and nothing else
  freeze | thaw NODE its daemon is frozen | continues
  cut | heal NODE    it cannot reach the database | it can again
  leave NODE         it leaves cleanly and hands over
  start NODE         it starts, or starts again
  drain | undrain NODE   it takes nothing new | takes work again
  database off | on  PostgreSQL dies | is started again
  links              prints links that log you in to the dashboards
  quit               ends everything
TEXT
}

is_node() {
  local node
  for node in "${nodes[@]}"; do [ "$node" != "$1" ] || return 0; done
  say "which node? ${nodes[*]}"
  return 1
}

obey() { # obey COMMAND [WHAT]
  case $1 in
  status | links) "$1" ;;
  kill | crash | freeze | thaw | leave | cut | heal) is_node "${2:-}" && "$1_node" "$2" ;;
  start) is_node "${2:-}" && start_node "$2" && say "node $2 is started" ;;
  drain) is_node "${2:-}" && on "$2" node drain "$2" ;;
  undrain) is_node "${2:-}" && on "$2" node drain "$2" --cancel ;;
  database)
    case ${2:-} in
    off) stop_database && say "PostgreSQL is gone; without it no lease can be renewed, and agents end in time" ;;
    on) start_database && say "PostgreSQL is back" ;;
    *) say "database off, or database on" ;;
    esac
    ;;
  '') ;;
  *) commands ;;
  esac
}

listen() {
  local line
  while printf 'fleet> ' >&2 && read -r -a line; do
    [ "${line[0]:-}" != quit ] || return 0
    obey "${line[@]:-}" || true
  done
  say ''
}

has_page() { grep -qs "^$1: page $2 on node" "$work/pages"; }
goes_on() { grep "^$1: " "$work/pages" | grep -vq " on node $2$"; }

# Kills the node that has the first agent in the middle of a book, and checks that it continues elsewhere.
check() {
  local agent=${agents[0]} node other
  within 20 "two pages of $agent" has_page "$agent-1" 2
  node=$(field_of a "$agent" node)
  for other in "${nodes[@]}"; do [ "$other" = "$node" ] || break; done
  say "$agent writes $agent-1 on node $node, which dies"
  kill_node "$node"
  within 20 "$agent on another node" runs_elsewhere "$other" "$agent" "$node"
  within 20 "the next page of $agent-1" goes_on "$agent-1" "$node"
  for agent in "${agents[@]}"; do within 20 "$agent somewhere" runs "$other" "$agent"; done
  [ ! -e "$work/complaints" ] || fail "$(head -n 1 "$work/complaints")"
  [ "$(grep -c "^${agents[0]}-1: page 1 on node" "$work/pages")" = 1 ] || fail "a finished page was written again"
  status
  echo
  grep "^${agents[0]}-1: " "$work/pages"
  say "fleet: it continued elsewhere, once, after the last finished page"
}

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
make_database
make_agents
on a node list >/dev/null # makes the tables, so that all nodes come at the same time
for node in "${nodes[@]}"; do start_node "$node"; done
for node in "${nodes[@]}"; do within 15 "node $node" grep -qs 'is up with' "$work/$node.log"; done
for agent in "${agents[@]}"; do within 15 "$agent" runs a "$agent"; done
if [ -n "$check" ]; then
  check
else
  status
  echo
  links
  say ''
  commands
  listen
fi
