# What all fake agents share. FAKE says what happens, FAKE_OUT is a folder for what they leave:
# `argv` (the words they got), `signal` (the one that ended them), and a file for each session.

printf '%s\n' "$@" >"$FAKE_OUT/argv"

# The value that follows an option.
value_of() {
  local wanted=$1
  shift
  while [ $# -gt 0 ]; do
    if [ "$1" = "$wanted" ]; then
      printf '%s' "$2"
      return
    fi
    shift
  done
}

# Ends with this code on this signal, as the agent's own handler would.
on_signal() {
  trap "echo $1 >\"\$FAKE_OUT/signal\"; exit $2" "$1"
}

# Works until a signal comes; no longer than a test waits.
work_on() {
  sleep 20 >/dev/null 2>&1 &
  trap "kill $! 2>/dev/null" EXIT
  wait $!
}
