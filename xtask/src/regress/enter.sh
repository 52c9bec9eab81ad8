#!/bin/sh
# Runs some of the suite's tests, as root in namespaces of its own: enter.sh ROOT PROGRAM TARGET...
#
# What is written goes into memory: ROOT stays as it is. PROGRAM is bound over the place that our
# names in ROOT are links to; with `-` OpenSSH's own programs are tried. Processes, ports and mounts
# are gone when the shell ends.
set -eu
root=$1 program=$2
shift 2

mount --make-rprivate /
mount -t tmpfs -o mode=755 regress /mnt
mkdir /mnt/upper /mnt/work /mnt/view
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/view
cd /mnt/view
mount -t proc proc proc
mount --rbind /dev dev
hostname regress
printf '127.0.0.1 localhost regress\n::1 localhost regress\n' >etc/hosts
mkdir -p run/sshd tmp/suite
chroot . ip link set lo up
chroot . chown regress: tmp/suite

# Nothing here has security keys.
rm -f usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so
if [ "$program" != - ]; then
    bin=usr/lib/fulmar/bin
    mount --bind "$program" $bin/fulmar
    set -- "$@" TEST_SSH_SSH=/$bin/ssh TEST_SSH_SSHD=/$bin/sshd TEST_SSH_SCP=/$bin/scp TEST_SSH_SFTP=/$bin/sftp \
        TEST_SSH_SFTPSERVER=/$bin/sftp-server TEST_SSH_SSHKEYGEN=/$bin/ssh-keygen
fi

exec chroot . setpriv --reuid=regress --regid=regress --init-groups env -i \
    HOME=/home/regress USER=regress LOGNAME=regress SHELL=/bin/bash TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    sh -c 'cd && exec "$@"' sh /usr/lib/openssh/regress/run-tests /tmp/suite "$@" </dev/null
