# Why this shell ended, for the task in $RELIGHT_TASK. Made by: relight trap bash
__relight_why=
__relight_recorded=

# Never fails, never prints.
__relight_record() {
  [ -z "$__relight_recorded" ] || return 0
  __relight_recorded=1
  set -- --code "$1"
  [ -z "$__relight_why" ] || set -- "$@" --signal "$__relight_why"
  RELIGHT_TASK="${RELIGHT_TASK-}" RELIGHT_FENCE="${RELIGHT_FENCE-}" \
    @RELIGHT@ trap record "$@" </dev/null >/dev/null 2>&1 || :
}

# Both answer with the code they were given, so that a trap of yours sees the same $?.
__relight_exit() {
  __relight_record "$1"
  return "$1"
}
__relight_hears() {
  __relight_why=$2
  return "$1"
}

# Without a trap of yours the shell dies of the signal, as it would have.
__relight_dies() {
  __relight_why=$1
  __relight_record "$2"
  trap - "$1"
  kill -s "$1" "${BASHPID:-$$}"
}

# What is trapped already; nothing when the signal is ignored or has its default.
__relight_trapped() {
  eval "set -- $(trap -p "$1")"
  printf '%s' "${3-}"
}

for __relight_signal in TERM INT HUP; do
  if [ -z "$(trap -p "$__relight_signal")" ]; then
    trap "__relight_dies $__relight_signal \$?" "$__relight_signal"
  else
    printf -v "__relight_on_$__relight_signal" '%s' "$(__relight_trapped "$__relight_signal")"
    __relight_yours="__relight_on_$__relight_signal"
    if [ -n "${!__relight_yours}" ]; then
      trap "if __relight_hears \$? $__relight_signal; then eval \"\$$__relight_yours\"; else eval \"\$$__relight_yours\"; fi" "$__relight_signal"
    fi
  fi
done
__relight_on_EXIT="$(__relight_trapped EXIT)"
trap 'if __relight_exit $?; then eval "$__relight_on_EXIT"; else eval "$__relight_on_EXIT"; fi' EXIT
