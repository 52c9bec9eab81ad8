#!/bin/sh
# Installs, uses, upgrades and removes the packages above Debian systems, as root in namespaces of its
# own: what is written goes into memory, and ports and processes are gone when it ends.
#
#   try-debian.sh bare ROOT FOLDER     a system without SSH: from the installation to the first login
#   try-debian.sh openssh ROOT FOLDER  a system with openssh-server: its place is taken and given back,
#                                      while a session goes on
#
# ROOT is made by mmdebstrap --variant=minbase, for `openssh` with --include=openssh-server,procps;
# FOLDER has the packages.
set -eu
case $1 in
bare | openssh)
    here=$(readlink -f "$0")
    exec unshare --mount --net --pid --uts --ipc --fork --kill-child sh "$here" "enter-$1" "$(readlink -f "$2")" "$(readlink -f "$3")"
    ;;
enter-*)
    kind=${1#enter-} root=$2 packages=$3
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 try "$root/mnt"
    cd "$root/mnt"
    mkdir upper work view
    mount -t overlay -o "lowerdir=$root,upperdir=$PWD/upper,workdir=$PWD/work" overlay view
    cd view
    mount -t proc proc proc
    mount -t tmpfs -o mode=755 run run
    mount --rbind /dev dev
    ip link set lo up
    mkdir -p tmp/packages run/sshd
    cp "$packages"/*.deb tmp/packages
    cp "$0" tmp/try.sh
    exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive sh /tmp/try.sh "in-$kind"
    ;;
esac

say() { printf '%s\n' "== $*"; }
now() { date +%s%N; }
user() {
    useradd --create-home --shell /bin/sh "$1"
    mkdir -p /home/"$1"/.ssh /root/.ssh
}
quietly() { "$@" >/tmp/output 2>&1 || { cat /tmp/output; exit 1; }; }
fails() { if "$@" >/tmp/output 2>&1; then say "$* succeeded"; exit 1; fi; }
same() { [ "$2" = "$3" ] || { say "$1: $2, not $3"; exit 1; }; }

in_bare() {
    user ada
    start=$(now)
    quietly dpkg -i /tmp/packages/fulmar_*.deb
    installed=$(now)
    fulmar sshd -f /etc/fulmar/sshd_config -p 2222
    fulmar keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
    cp /root/.ssh/id_ed25519.pub /home/ada/.ssh/authorized_keys
    who=$(fulmar ssh -o StrictHostKeyChecking=no -p 2222 ada@127.0.0.1 id -un 2>/dev/null)
    same 'first login' "$who" ada
    say "installation $(((installed - start) / 1000000)) ms, with the first login $((($(now) - start) / 1000000)) ms"
    same 'the user of the processes before the login' "$(getent passwd fulmar | cut -d: -f6)" /run/fulmar-empty
    # An upgrade keeps a changed configuration and the host key, and sessions.
    echo '# mine' >>/etc/fulmar/sshd_config
    key=$(cat /etc/fulmar/ssh_host_ed25519_key.pub)
    mkfifo /tmp/session
    fulmar ssh -p 2222 ada@127.0.0.1 'cat; echo still here' </tmp/session >/tmp/said 2>/dev/null &
    session=$!
    exec 3>/tmp/session
    quietly dpkg -i --force-confold /tmp/packages/fulmar_*.deb
    grep -q '^# mine' /etc/fulmar/sshd_config
    same 'the host key' "$(cat /etc/fulmar/ssh_host_ed25519_key.pub)" "$key"
    kill "$(cat /run/sshd.pid 2>/dev/null || cat /var/run/sshd.pid)"
    exec 3>&-
    wait $session
    same 'the session' "$(cat /tmp/said)" 'still here'
    # A removal keeps the configuration and the key, a purge nothing.
    quietly dpkg -r fulmar
    test -e /etc/fulmar/sshd_config && test -e /etc/fulmar/ssh_host_ed25519_key
    fails test -e /usr/bin/fulmar
    quietly dpkg -P fulmar
    fails test -e /etc/fulmar
    fails test -e /etc/pam.d/fulmar
    say 'bare: installed, logged in, upgraded, removed and purged'
}

# All that an openssh package or a person put there, with mode, owner and time.
state() {
    find /etc/ssh /etc/pam.d/sshd /usr/bin/ssh* /usr/bin/scp /usr/bin/sftp /usr/sbin/sshd* /usr/lib/openssh /lib/systemd/system/ssh* \
        ! -type d -printf '%p %y %m %U %G %T@ %n %l ' \( -type f -exec md5sum {} \; -o -printf '\n' \) | sort
    dpkg-divert --list | sort
    dpkg-statoverride --list | sort
}

in_openssh() {
    user ada
    ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
    cp /root/.ssh/id_ed25519.pub /home/ada/.ssh/authorized_keys
    # A client that knows the host by its ECDSA key only.
    printf '127.0.0.1 %s\n' "$(cut -d' ' -f1-2 /etc/ssh/ssh_host_ecdsa_key.pub)" >/root/.ssh/known_hosts
    strict='-o StrictHostKeyChecking=yes'
    state >/tmp/before
    /usr/sbin/sshd
    mkfifo /tmp/session
    ssh $strict ada@127.0.0.1 'cat; echo still here' </tmp/session >/tmp/said &
    session=$!
    exec 3>/tmp/session
    # What is refused changes nothing: a diversion of somebody else, and keys with which no server starts.
    quietly dpkg -i /tmp/packages/fulmar_*.deb
    dpkg-divert --quiet --local --rename --divert /usr/bin/scp.mine --add /usr/bin/scp
    fails fulmar install --replace-openssh
    grep -q 'diverted to /usr/bin/scp.mine' /tmp/output
    dpkg-divert --quiet --local --rename --remove /usr/bin/scp
    for keys in 'HostKey /etc/ssh/ssh_host_none_key' 'HostKey /etc/ssh/open_key'; do
        install -m 644 /etc/ssh/ssh_host_rsa_key /etc/ssh/open_key
        cp -p /etc/ssh/sshd_config /tmp/sshd_config
        echo "$keys" >>/etc/ssh/sshd_config
        fails fulmar install --replace-openssh
        grep -q 'sshd would not start' /tmp/output
        cp -p /tmp/sshd_config /etc/ssh/sshd_config
        rm /etc/ssh/open_key
    done
    state >/tmp/after
    cmp /tmp/before /tmp/after || { diff /tmp/before /tmp/after; exit 1; }
    same 'the server before' "$(ssh -v $strict ada@127.0.0.1 true 2>&1 | grep -c 'remote software version OpenSSH')" 1
    quietly dpkg -i /tmp/packages/fulmar_*.deb /tmp/packages/fulmar-replaces-openssh_*.deb
    grep -e '- ' /tmp/output
    same 'ssh' "$(readlink -f "$(command -v ssh)")" /usr/bin/fulmar
    same 'the diversions' "$(dpkg-divert --list | grep -c 'by fulmar-replaces-openssh')" 10
    # OpenSSH's listener executes its name for each connection, if it is older than 9.8, and serves until it starts anew.
    same 'the old listener' "$(ssh.openssh -v $strict ada@127.0.0.1 true 2>&1 | grep -c 'remote software version OpenSSH')" 1
    # OpenSSH's listener starts its program anew, which is ours now.
    kill -HUP "$(cat /run/sshd.pid)"
    until ssh.openssh -v $strict ada@127.0.0.1 true 2>&1 | grep -q 'remote software version Fulmar'; do sleep 0.2; done
    same 'OpenSSH to Fulmar' "$(ssh.openssh $strict ada@127.0.0.1 id -un)" ada
    same 'Fulmar to Fulmar' "$(ssh $strict ada@127.0.0.1 id -un)" ada
    same 'the PAM service' "$(sshd -T | grep -i '^pamservicename')" 'PAMServiceName sshd'
    same 'what sshd -t says' "$(sshd -t 2>&1 | grep -c 'as with OpenSSH')" 0
    # OpenSSH's package is installed again, as by an upgrade.
    if ls /tmp/packages/openssh-client_*.deb >/dev/null 2>&1; then
        quietly dpkg -i /tmp/packages/openssh-client_*.deb
        same 'ssh after the upgrade' "$(readlink -f /usr/bin/ssh)" /usr/bin/fulmar
        # The package's script gives the agent its group and mode by its name.
        same 'the mode of fulmar' "$(stat -c %a-%G /usr/bin/fulmar)" 755-root
    fi
    quietly dpkg -r fulmar-replaces-openssh
    state >/tmp/after
    cmp /tmp/before /tmp/after || { diff /tmp/before /tmp/after; exit 1; }
    kill "$(cat /run/sshd.pid)"
    until /usr/sbin/sshd 2>/dev/null && ssh -v $strict ada@127.0.0.1 true 2>&1 | grep -q 'remote software version OpenSSH'; do sleep 0.2; done
    exec 3>&-
    wait $session
    same 'the session' "$(cat /tmp/said)" 'still here'
    # A removal of fulmar alone gives the place back, too.
    quietly dpkg -i /tmp/packages/fulmar-replaces-openssh_*.deb
    quietly dpkg -r fulmar-replaces-openssh fulmar
    state >/tmp/after
    cmp /tmp/before /tmp/after || { diff /tmp/before /tmp/after; exit 1; }
    say 'openssh: place taken and given back to the last bit; the session went on'
}

case $1 in
in-bare) in_bare ;;
in-openssh) in_openssh ;;
esac
