#!/bin/sh
# Installs, uses, upgrades and erases the rpm package above a system in a directory, as root in namespaces of
# its own: what is written goes into memory, and ports and processes are gone when it ends.
#
#   try-rpm.sh ROOT FOLDER
#
# ROOT is a system of rpm's family (dnf --installroot), or Debian's (mmdebstrap --variant=minbase): there rpm keeps
# a database of its own, dependencies are not asked for, and PAM, whose stack is Red Hat's, is off. FOLDER has
# the package. The rpm that runs is this machine's.
set -eu

say() { printf '%s\n' "== $*"; }
quietly() { "$@" >"$own/output" 2>&1 || { cat "$own/output"; exit 1; }; }
fails() { if "$@" >/dev/null 2>&1; then say "$* succeeded"; exit 1; fi; }
same() { [ "$2" = "$3" ] || { say "$1: $2, not $3"; exit 1; }; }
inside() { chroot "$view" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }
package() { rpm --root "$view" --dbpath /var/lib/rpm $depends "$@"; }

if [ "$1" != in ]; then
    here=$(readlink -f "$0")
    exec unshare --mount --net --pid --uts --ipc --fork --kill-child sh "$here" in "$(readlink -f "$1")" "$(readlink -f "$2")"
fi

root=$2
packages=$3
mount --make-rprivate /
mount -t tmpfs -o mode=755 try "$root/mnt"
cd "$root/mnt"
mkdir upper work view own
own=$PWD/own
mount -t overlay -o "lowerdir=$root,upperdir=$PWD/upper,workdir=$PWD/work" overlay view
view=$PWD/view
mount -t proc proc "$view/proc"
mount -t tmpfs -o mode=755 run "$view/run"
mount --rbind /dev "$view/dev"
ip link set lo up
file=$(ls "$packages"/fulmar-*.rpm)
depends=
pam=
if [ -e "$root/etc/debian_version" ]; then
    depends=--nodeps
    pam='-o UsePAM=no'
fi

# Without PAM an account with a locked password is closed.
inside useradd --create-home --shell /bin/sh --password '*' ada
start=$(date +%s%N)
quietly package -i "$file"
installed=$(date +%s%N)
inside test -s /etc/fulmar/ssh_host_ed25519_key
same 'the user of the processes before the login' "$(inside getent passwd fulmar | cut -d: -f6)" /run/fulmar-empty
inside sh -c "mkdir -p /root/.ssh /home/ada/.ssh && fulmar keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 &&
    cp /root/.ssh/id_ed25519.pub /home/ada/.ssh/authorized_keys && fulmar sshd -f /etc/fulmar/sshd_config $pam -p 2222"
who=$(inside fulmar ssh -o StrictHostKeyChecking=no -p 2222 ada@127.0.0.1 id -un 2>/dev/null)
same 'first login' "$who" ada
say "installation $(((installed - start) / 1000000)) ms, with the first login $((($(date +%s%N) - start) / 1000000)) ms"
quietly package -V fulmar

# An upgrade keeps a changed configuration and the host key, and sessions.
echo '# mine' >>"$view/etc/fulmar/sshd_config"
key=$(cat "$view/etc/fulmar/ssh_host_ed25519_key.pub")
mkfifo "$own/session"
inside fulmar ssh -p 2222 ada@127.0.0.1 'cat; echo still here' <"$own/session" >"$own/said" 2>/dev/null &
session=$!
exec 3>"$own/session"
quietly package -U --force "$file"
grep -q '^# mine' "$view/etc/fulmar/sshd_config"
same 'the host key' "$(cat "$view/etc/fulmar/ssh_host_ed25519_key.pub")" "$key"
inside sh -c 'kill "$(cat /run/sshd.pid)"'
exec 3>&-
wait $session
same 'the session' "$(cat "$own/said")" 'still here'

# An erasure keeps what somebody has changed, and the host key.
quietly package -e fulmar
fails inside test -e /usr/bin/fulmar
fails inside test -e /etc/pam.d/fulmar
inside test -e /etc/fulmar/sshd_config.rpmsave
inside test -e /etc/fulmar/ssh_host_ed25519_key
say 'rpm: installed, logged in, verified, upgraded and erased'
