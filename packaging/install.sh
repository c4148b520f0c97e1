#!/bin/sh
# Installs relight into ~/.local/bin, without sudo.
#
#   install.sh                 from the folder that this script is in
#   install.sh --from DIR|URL  from a folder of artefacts, or from where they are served
#   install.sh --to DIR        into DIR instead of ~/.local/bin
#
# An archive is unpacked only when its checksum is the one in SHA256SUMS.
set -eu

from= to=${RELIGHT_INSTALL_DIR:-$HOME/.local/bin}
while [ $# -gt 0 ]; do
  case "$1" in
    --from) from=${2:?--from needs a folder or a URL}; shift 2 ;;
    --to) to=${2:?--to needs a folder}; shift 2 ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install.sh: unknown argument $1 (see --help)" >&2; exit 64 ;;
  esac
done

fail() { echo "install.sh: $*" >&2; exit 1; }

[ "$(uname -s)" = Linux ] || fail "Relight runs only on Linux so far"
machine=$(uname -m)
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
from=${from:-$here}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# get NAME: a file of the release into the work folder.
get() {
  case "$from" in
    http://* | https://*)
      if command -v curl >/dev/null; then curl -fsSL "$from/$1" -o "$work/$1"
      elif command -v wget >/dev/null; then wget -q "$from/$1" -O "$work/$1"
      else fail "curl or wget is needed to download from $from"; fi ;;
    *) cp -- "$from/$1" "$work/$1" 2>/dev/null ;;
  esac || fail "cannot read $1 from $from"
}

if [ -x "$from/relight" ] && [ ! -f "$from/SHA256SUMS" ]; then
  # An unpacked archive: whoever unpacked it has checked it.
  source=$from
else
  get SHA256SUMS
  archive=$(sed -n "s/^[0-9a-f]\{64\}  \(relight-[^/]*-linux-$machine\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
  [ -n "$archive" ] || fail "there is no archive for $machine in $from"
  get "$archive"
  (cd "$work" && grep -F "  $archive" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) ||
    fail "the checksum of $archive is wrong; nothing was installed"
  tar -xzf "$work/$archive" -C "$work"
  source=$work/${archive%.tar.gz}
fi

mkdir -p "$to"
# Written beside and renamed: a running relight keeps its file.
cp "$source/relight" "$to/.relight.new"
chmod 755 "$to/.relight.new"
"$to/.relight.new" --version >/dev/null || { rm -f "$to/.relight.new"; fail "the binary does not run on this machine"; }
mv "$to/.relight.new" "$to/relight"
data=${XDG_DATA_HOME:-$HOME/.local/share}
copy() { [ ! -f "$1" ] || { mkdir -p "$(dirname "$2")" && cp "$1" "$2"; } 2>/dev/null || true; }
copy "$source/completions/relight.bash" "$data/bash-completion/completions/relight"
copy "$source/completions/relight.zsh" "$data/zsh/site-functions/_relight"
copy "$source/completions/relight.fish" "$data/fish/vendor_completions.d/relight.fish"
for page in "$source"/man/*.1; do copy "$page" "$data/man/man1/$(basename "$page")"; done

echo "installed $("$to/relight" --version) as $to/relight"
case ":$PATH:" in
  *":$to:"*) ;;
  *) echo "$to is not in your PATH: add  export PATH=\"$to:\$PATH\"  to your shell's profile" ;;
esac
case "${SHELL:-}" in
  */zsh) echo "completion for zsh: add  fpath+=(\"$data/zsh/site-functions\")  before compinit in ~/.zshrc" ;;
esac
