#!/usr/bin/env bash
# Packs a binary with ./release and uses each artefact as a user would.
#
# release.sh BINARY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
binary=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset XDG_DATA_HOME RELIGHT_INSTALL_DIR
export RELIGHT_HOME=$work/state

fail() { echo "release: $*" >&2; exit 1; }
# A binary that runs a step, and gives its recorded output the second time.
works() {
  local first second
  "$1" task start demo >/dev/null
  first=$("$1" step run once --task demo -- sh -c 'echo $$')
  second=$("$1" step run once --task demo -- sh -c 'echo $$')
  [ "$first" = "$second" ] || fail "$1 repeated a step"
  rm -rf "$RELIGHT_HOME"
}

strip -o "$work/relight" "$binary" 2>/dev/null || cp "$binary" "$work/relight"
./release --binary "$work/relight" --out "$work/out"
(cd "$work/out" && sha256sum --quiet -c SHA256SUMS)

echo "install.sh from a folder of artefacts"
HOME=$work/a sh "$work/out/install.sh" >/dev/null
works "$work/a/.local/bin/relight"
[ -s "$work/a/.local/share/bash-completion/completions/relight" ] || fail "no completions"
[ -s "$work/a/.local/share/zsh/site-functions/_relight" ] || fail "no completion for zsh"
[ -s "$work/a/.local/share/man/man1/relight.1" ] || fail "no man page"

echo "install.sh from an unpacked archive, into a folder of one's own"
mkdir "$work/unpacked"
tar -xzf "$work"/out/relight-*.tar.gz -C "$work/unpacked" --strip-components=1
HOME=$work/b sh "$work/unpacked/install.sh" --to "$work/b/tools" >/dev/null
works "$work/b/tools/relight"
grep -o '](\([^)#:]*\)' "$work/unpacked/README.md" | cut -c 3- | while read -r page; do
  [ -e "$work/unpacked/$page" ] || fail "README.md links to $page, which is not in the archive"
done

echo "install.sh refuses an archive that was changed"
cp -r "$work/out" "$work/changed"
printf x >>"$(echo "$work"/changed/relight-*.tar.gz)"
if HOME=$work/c sh "$work/changed/install.sh" >"$work/said" 2>&1; then fail "a changed archive was installed"; fi
grep -q 'checksum of relight-.* is wrong; nothing was installed' "$work/said" || fail "it says $(cat "$work/said")"
[ ! -e "$work/c/.local/bin/relight" ] || fail "something was installed"

echo "two packings of one binary are the same"
./release --binary "$work/relight" --out "$work/again" >/dev/null
cmp "$work/out/SHA256SUMS" "$work/again/SHA256SUMS"

if command -v dpkg-deb >/dev/null; then
  echo "Debian package"
  dpkg-deb -x "$work"/out/relight_*.deb "$work/deb"
  works "$work/deb/usr/bin/relight"
  [ -s "$work/deb/usr/share/man/man1/relight.1.gz" ] || fail "no man page in the package"
else
  echo "SKIPPED: the Debian package (no dpkg-deb)"
fi

if command -v buildah >/dev/null && [ "$(id -u)" = 0 ]; then
  echo "image"
  image() { buildah --storage-driver vfs --root "$work/images" --runroot "$work/images-run" "$@"; }
  in_image() { image run --isolation chroot "$container" -- /relight "$@"; }
  image build --isolation chroot --format docker --quiet --tag relight --file "$work/unpacked/image/Dockerfile" \
    "$work/unpacked" >/dev/null 2>&1 || fail "the image cannot be built"
  container=$(image from relight)
  trap 'image rm --all >/dev/null 2>&1; rm -rf "$work"' EXIT
  # A binary that is not static needs its libraries.
  mounted=$(image mount "$container")
  for library in $(ldd "$work/relight" 2>/dev/null | grep -o '/lib[^ ]*'); do
    install -D "$library" "$mounted$library"
  done
  [ "$(in_image status --json 2>/dev/null | grep -o '"daemon": *null')" ] || fail "a daemon runs in a new container"
  if in_image dashboard --print --quiet >/dev/null 2>&1; then fail "the healthcheck is good without a daemon"; fi
  health=$(image inspect --type image --format '{{.Docker.Config.Healthcheck.Test}}' relight)
  [ "$health" = "[CMD /relight dashboard --print --quiet]" ] || fail "the healthcheck is $health"
  # Not its default address: the container has no network of its own here.
  in_image up --listen 127.0.0.1:0 >"$work/said" 2>&1 &
  up=$!
  for _ in {1..100}; do
    ! in_image dashboard --print --quiet >/dev/null 2>&1 || break
    kill -0 "$up" 2>/dev/null || fail "relight up in the image: $(cat "$work/said")"
    sleep 0.1
  done
  in_image dashboard --print --quiet || fail "the healthcheck is bad with a daemon: $(cat "$work/said")"
  in_image down >/dev/null
  wait "$up" || fail "relight up in the image: $(cat "$work/said")"
else
  echo "SKIPPED: the image (needs buildah and root)"
fi

echo "crates"
# Whether what is packed builds by itself is tried by ./release --check: it takes minutes.
cargo package --quiet --offline --allow-dirty --no-verify --workspace --exclude relight-testkit \
  --exclude relight-bench --exclude relight-fuzz --exclude relight-python --exclude relight-node --target-dir "$work/crates" 2>"$work/said" || { cat "$work/said"; exit 1; }
for crate in relight relight-cli; do
  [ -s "$(echo "$work"/crates/package/$crate-[0-9]*.crate)" ] || fail "no crate $crate"
done
