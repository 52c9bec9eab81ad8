#!/bin/sh
# Runs something above a chroot, as root in namespaces of its own: what is written goes into memory
# and ROOT stays as it is, and processes, ports and mounts are gone when it ends.
#
#   enter.sh ROOT PROGRAM TARGET...               the suite's tests, with PROGRAM bound over the place
#                                                 that our names in ROOT are links to, or `-` for
#                                                 ROOT's OpenSSH; the tests are those of the system
#                                                 in the directory TESTS_OF, if it is set
#   enter.sh ROOT --in SOURCES FOLDER COMMAND...  a command in FOLDER, with the folder SOURCES
set -eu
root=$1 program=$2
shift 2

mount --make-rprivate /
mount -t tmpfs -o mode=755 regress "$root/mnt"
cd "$root/mnt"
mkdir upper work view
mount -t overlay -o "lowerdir=$root,upperdir=$PWD/upper,workdir=$PWD/work" overlay view
cd view
mount -t proc proc proc
mount --rbind /dev dev
hostname regress
printf '127.0.0.1 localhost regress\n::1 localhost regress\n' >etc/hosts
mkdir -p run/sshd tmp/suite
chroot . ip link set lo up
chroot . chown regress: tmp/suite

if [ "$program" = --in ]; then
    mkdir -p ".$1"
    mount --rbind "$1" ".$1"
    shift
    exec chroot . sh -c 'cd "$1" && shift && exec "$@"' sh "$@"
fi

tests=usr/lib/openssh/regress
TESTS_OF=${TESTS_OF-}
if [ -n "$TESTS_OF" ]; then
    cp -a "$TESTS_OF/$tests" ../tests
    cp -a $tests/password $tests/kbdintpw ../tests/
    mount --bind ../tests $tests
fi
if [ "$program$TESTS_OF" != - ] && ! grep -q PerSourcePenalties $tests/test-exec.sh; then
    # Tests from before the penalties for sources of failed logins. Later ones turn them off.
    sed -i 's/^\tSubsystem\tsftp\t/\tPerSourcePenalties\tno\n&/' $tests/test-exec.sh
fi

if [ "$program$TESTS_OF" != - ]; then
    # Tests from before sshd -T wrote keywords as the manual page does.
    sed -i "s/awk '\/^forcecommand\//awk 'tolower(\$1) ~ \/^forcecommand\//" $tests/addrmatch.sh
    sed -i "s/awk '\$1==\"banner\"/awk 'tolower(\$1)==\"banner\"/" $tests/cfgmatch.sh
    sed -i "s/grep 'listenaddress '/grep -i 'listenaddress '/; s/diff \$OBJ.sshd_config.0/diff -i \$OBJ\/sshd_config.0/" $tests/cfgparse.sh
    sed -i "s/awk '\/rekeylimit\//awk 'tolower(\$0) ~ \/rekeylimit\//" $tests/rekey.sh
    sed -i "s/awk '\$1==\"hostkey\"/awk 'tolower(\$1)==\"hostkey\"/" $tests/hostbased.sh
fi

hostbased= domain= options=
case " $* " in
    *=hostbased\ *)
        # It sets itself up, except that of old versions, which wants a machine that is.
        hostbased=setupandrun
        if ! grep -q $hostbased $tests/hostbased.sh; then
            hostbased=yes
            echo regress >etc/ssh/shosts.equiv
            echo 'EnableSSHKeysign yes' >>etc/ssh/ssh_config
            for key in etc/ssh/ssh_host_*_key.pub; do echo "regress $(cat "$key")"; done >etc/ssh/ssh_known_hosts
        fi
        ;;
    *=sshfp-connect\ *)
        # It is skipped without a domain. Its RSA key has 1024 bits, OpenSSH's least.
        domain=sshfp.regress options='RequiredRSASize 1024'
        chroot . sh -s $domain <"${0%/*}/zone.sh"
        ;;
esac
if [ "$program" != - ]; then
    bin=usr/lib/fulmar/bin
    case " $* " in
        *=hostbased\ *)
            # Clients know one place of this program, which has to be set-user-ID.
            install -m 4755 "$program" usr/lib/openssh/ssh-keysign
            # The test wants signatures with SHA-1 of this key, which are left out on purpose.
            rm -f etc/ssh/ssh_host_rsa_key etc/ssh/ssh_host_rsa_key.pub
            ;;
    esac
    mount --bind "$program" $bin/fulmar
    set -- "$@" TEST_SSH_SSH=/$bin/ssh TEST_SSH_SSHD=/$bin/sshd TEST_SSH_SCP=/$bin/scp TEST_SSH_SFTP=/$bin/sftp \
        TEST_SSH_SFTPSERVER=/$bin/sftp-server TEST_SSH_SSHKEYGEN=/$bin/ssh-keygen TEST_SSH_SSHKEYSCAN=/$bin/ssh-keyscan \
        TEST_SSH_SSHAGENT=/$bin/ssh-agent TEST_SSH_SSHADD=/$bin/ssh-add
fi

exec chroot . setpriv --reuid=regress --regid=regress --init-groups env -i \
    HOME=/home/regress USER=regress LOGNAME=regress SHELL=/bin/bash TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin OPENSSL_BIN=openssl TEST_SSH_HOSTBASED_AUTH="$hostbased" \
    TEST_SSH_SSHFP_DOMAIN="$domain" TEST_SSH_SSHD_CONFOPTS="$options" TEST_SSH_SSH_CONFOPTS="$options" \
    sh -c 'cd && exec "$@"' sh /usr/lib/openssh/regress/run-tests /tmp/suite "$@" </dev/null
