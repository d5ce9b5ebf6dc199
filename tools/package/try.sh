#!/usr/bin/env bash
# Installs the packages of build/packages in bare roots of their own, trains there on two ranks, and removes them again:
# nothing must be left.
#   tools/package/try.sh [FOLDER WITH PACKAGES] [debian|ubuntu|wheel …]        default: debian
#     debian   the tarball; then the steps of deploy/docker/Dockerfile.deb, as the user of a pod; then purging
#     ubuntu   the tarball in Ubuntu 24.04 with libstdc++6, which its images have. Needs Ubuntu's keyring, e.g. UBUNTU_KEYRING=ubuntu-archive-keyring.gpg
#     wheel    pip in Debian's Python, with the wheels of TORCH_WHEELS (`pip download torch==2.11.0 -d FOLDER`) and no network
# Needs root, mmdebstrap and the mirrors; takes about two minutes each.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
packages=$(realpath "${1:-$root/build/packages}")
shift || true
[ $# -gt 0 ] || set -- debian
work=$(mktemp -d)
chroot=
unmount() {
  for place in dev/shm dev proc packages wheels; do umount "$chroot/$place" 2>/dev/null || true; done
}
finish() {
  [ -z "$chroot" ] || unmount
  rm -rf --one-file-system "$work"
}
trap finish EXIT
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is missing: apt-get install mmdebstrap" >&2; exit 1; }

# make_root NAME SUITE MIRROR MMDEBSTRAP'S FLAGS…: a bare system with the packages at /packages. MIRROR "": Debian's.
make_root() {
  [ -z "$chroot" ] || { unmount; rm -rf --one-file-system "$chroot"; }
  chroot=$work/$1
  mmdebstrap --quiet --variant=minbase --include=ca-certificates "${@:4}" "$2" "$chroot" ${3:+"$3"}
  mkdir -p "$chroot/packages" "$chroot/wheels" "$chroot/job"
  mount --bind "$packages" "$chroot/packages"
  mount -t proc proc "$chroot/proc"
  mount --bind /dev "$chroot/dev"
  mount -t tmpfs tmpfs "$chroot/dev/shm"
  cat >"$chroot/job/job.yaml" <<'YAML'
model: {name: mlp, sizes: [32, 64, 10]}
train_dataloader: {name: gaussian_classification, size: 256, features: 32, classes: 10}
global_train_batch_size: 16
optimizers: {name: decoupled_adamw, lr: 0.001}
max_duration: 20ba
run_folder: /tmp/run
YAML
}
inside=(/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive)
in_root() { chroot "$chroot" "${inside[@]}" "$@"; }
as_pod() { chroot --userspec=65532:65532 "$chroot" "${inside[@]}" "$@"; }  # deploy/k8s
files() {
  in_root find / -xdev \( -path /proc -o -path /packages -o -path /wheels -o -path /tmp -o -path /var \) -prune -o -print | sort
}
# train NAME WORDS OF THE COMMAND…
train() {
  local name=$1 begin=$EPOCHREALTIME
  shift
  "$@" -n 2 /job/job.yaml | tail -1
  echo "$name: trained 20 batches in $(awk "BEGIN {print $EPOCHREALTIME - $begin}") s"
  rm -rf "$chroot/tmp/run"
}
try_tarball() {
  in_root tar -C /opt -xzf "/packages/$(basename "$packages"/*.tar.gz)"
  train "$1" in_root "/opt/$(basename "$chroot"/opt/composer-native-*)/bin/composer"
  rm -rf "$chroot"/opt/composer-native-*
}
nothing_left() {
  files >"$work/after"
  local left
  left=$(comm -13 "$work/before" "$work/after" | grep -i composer || true)
  [ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
  echo "== removed: nothing is left"
}
loudly() { "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }; }

try_debian() {
  make_root debian bookworm ""
  files >"$work/before"
  echo "== tarball, in a Debian 12 without any of its libraries"
  try_tarball tarball
  echo "== deploy/docker/Dockerfile.deb"
  local file=$root/deploy/docker/Dockerfile.deb steps
  steps=$(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$file" | sed -n 's/^RUN \(--[^ ]* \)*//p')
  loudly in_root sh -ec "$steps"
  train "container, as user 65532" as_pod "$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p' "$file")"
  in_root composer doctor >/dev/null 2>&1 || true
  du -sm "$chroot" --exclude=packages --exclude=proc --exclude=dev | awk '{print "image: " $1 " MB unpacked"}'
  loudly in_root sh -c 'apt-get purge -y -qq --autoremove composer-native composer-native-libtorch'
  nothing_left
}
try_ubuntu() {
  make_root ubuntu noble http://archive.ubuntu.com/ubuntu/ --components=main,universe --include=libstdc++6 \
    --keyring="${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}"
  echo "== tarball, in an Ubuntu 24.04 without any of its libraries but libstdc++6"
  try_tarball "Ubuntu tarball"
}
try_wheel() {
  make_root wheel bookworm "" --include=python3-venv,python3-pip
  mount --bind "${TORCH_WHEELS:?a folder made by pip download torch==2.11.0 -d FOLDER}" "$chroot/wheels"
  in_root python3 -m venv /opt/venv
  files >"$work/before"
  echo "== wheel"
  local begin=$EPOCHREALTIME
  loudly in_root sh -c '/opt/venv/bin/pip install --no-index --find-links /wheels /packages/composer_native-*.whl'
  echo "pip install, torch and CUDA's libraries included: $(awk "BEGIN {print $EPOCHREALTIME - $begin}") s"
  train wheel in_root /opt/venv/bin/composer
  echo "from pip install to the last step: $(awk "BEGIN {print $EPOCHREALTIME - $begin}") s"
  loudly in_root /opt/venv/bin/pip uninstall -y composer-native
  nothing_left
}
for what in "$@"; do
  case $what in
    debian | ubuntu | wheel) "try_$what" ;;
    *) echo "no part $what: debian, ubuntu, wheel" >&2; exit 64 ;;
  esac
done
