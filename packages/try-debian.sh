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
    if command -v systemd-tmpfiles >/dev/null; then
        same 'their root directory' "$(stat -c %a-%U /run/fulmar-empty)" 755-root
    fi
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
    # As "systemctl enable" left it: the service would be on after the next installation.
    enabled=/etc/systemd/system/multi-user.target.wants/fulmar-sshd.service
    mkdir -p "${enabled%/*}"
    ln -s /lib/systemd/system/fulmar-sshd.service "$enabled"
    quietly dpkg -P fulmar
    fails test -e /etc/fulmar
    fails test -e /etc/pam.d/fulmar
    fails test -L "$enabled"
    same 'what dpkg finds wrong' "$(dpkg --audit)" ''
    say 'bare: installed, logged in, upgraded, removed and purged'
}

# All that an openssh package or a person put there, with mode, owner and time.
state() {
    find /etc/ssh /etc/pam.d/sshd /usr/bin/ssh* /usr/bin/scp /usr/bin/sftp /usr/sbin/sshd* /usr/lib/openssh /lib/systemd/system/ssh* \
        ! -type d -printf '%p %y %m %U %G %T@ %n %l ' \( -type f -exec md5sum {} \; -o -printf '\n' \) | sort
    dpkg-divert --list | sort
    dpkg-statoverride --list | sort
}

# The scripts of packages find a systemd whose ssh.service is the server that runs, and do nothing: what they ask is in /tmp/asked.
pretend_systemd() {
    mkdir -p /run/systemd/system /tmp/pretended
    cat >/tmp/pretended/systemctl <<'END'
#!/bin/sh
echo "$*" >>/tmp/asked
case $* in *MainPID*) cat /run/sshd.pid ;; esac
END
    cp /tmp/pretended/systemctl /tmp/pretended/deb-systemd-invoke
    chmod 755 /tmp/pretended/*
    : >/tmp/asked
    PATH=/tmp/pretended:$PATH
}

forget_systemd() {
    PATH=${PATH#/tmp/pretended:}
    rm -r /run/systemd/system
}

in_openssh() {
    user ada
    ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
    cp /root/.ssh/id_ed25519.pub /home/ada/.ssh/authorized_keys
    # A client that knows the host by its ECDSA key only.
    printf '127.0.0.1 %s\n' "$(cut -d' ' -f1-2 /etc/ssh/ssh_host_ecdsa_key.pub)" >/root/.ssh/known_hosts
    strict='-o StrictHostKeyChecking=yes'
    # A client and a server by links with names of their own; Debian 12 has the first one itself.
    test -e /usr/bin/slogin || ln -s ssh /usr/bin/slogin
    ln -s sshd /usr/sbin/sshd-admin
    admin='-p 2200 -o HostKeyAlias=127.0.0.1'
    state >/tmp/before
    /usr/sbin/sshd
    /usr/sbin/sshd-admin -p 2200 -o PidFile=/run/sshd-admin.pid
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
    same 'the old listener by a link' "$(ssh.openssh -v $strict $admin ada@127.0.0.1 true 2>&1 | grep -c 'remote software version OpenSSH')" 1
    # OpenSSH's listener starts its program anew, which is ours now.
    kill -HUP "$(cat /run/sshd-admin.pid)"
    until ssh.openssh -v $strict $admin ada@127.0.0.1 true 2>&1 | grep -q 'remote software version Fulmar'; do sleep 0.2; done
    kill "$(cat /run/sshd-admin.pid)"
    kill -HUP "$(cat /run/sshd.pid)"
    until ssh.openssh -v $strict ada@127.0.0.1 true 2>&1 | grep -q 'remote software version Fulmar'; do sleep 0.2; done
    same 'OpenSSH to Fulmar' "$(ssh.openssh $strict ada@127.0.0.1 id -un)" ada
    same 'Fulmar to Fulmar' "$(ssh $strict ada@127.0.0.1 id -un)" ada
    same 'a client by a link' "$(slogin $strict ada@127.0.0.1 id -un)" ada
    same 'a server by a link' "$(sshd-admin -T | grep -i '^port')" 'Port 22'
    same 'the PAM service' "$(sshd -T | grep -i '^pamservicename')" 'PAMServiceName sshd'
    same 'what sshd -t says' "$(sshd -t 2>&1 | grep -c 'as with OpenSSH')" 0
    # An upgrade reloads a listener that is ours, and does not restart it.
    pretend_systemd
    quietly dpkg -i /tmp/packages/fulmar_*.deb /tmp/packages/fulmar-replaces-openssh_*.deb
    same 'what an upgrade does with the service' "$(grep -o 're.* ssh.service' /tmp/asked)" 'reload ssh.service'
    # With a configuration that is broken it stands, too, and says so.
    cp -p /etc/ssh/sshd_config /tmp/sshd_config
    echo Bogus >>/etc/ssh/sshd_config
    quietly dpkg -i /tmp/packages/fulmar_*.deb /tmp/packages/fulmar-replaces-openssh_*.deb
    grep -q "OpenSSH's place stays as it is" /tmp/output
    same 'what dpkg finds wrong' "$(dpkg --audit)" ''
    cp -p /tmp/sshd_config /etc/ssh/sshd_config
    forget_systemd
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
    # Without OpenSSH's server, there is nothing to restart or to mend.
    quietly dpkg -i /tmp/packages/fulmar_*.deb /tmp/packages/fulmar-replaces-openssh_*.deb
    quietly dpkg -r openssh-server
    pretend_systemd
    quietly dpkg -r fulmar-replaces-openssh
    fails grep -e 'not found' -e 'goes on' /tmp/output
    forget_systemd
    same 'what dpkg finds wrong' "$(dpkg --audit)" ''
    say 'openssh: place taken and given back to the last bit; the session went on'
}

case $1 in
in-bare) in_bare ;;
in-openssh) in_openssh ;;
esac
