# libvirt's remote driver by ssh (virt-ssh-helper there) to a daemon with its test driver.
mkdir run
cat >libvirtd.conf <<END
unix_sock_dir = "$T_DIR/run"
auth_unix_rw = "none"
auth_unix_ro = "none"
END
LIBVIRT_DRIVER_DIR="$T_DIR/no-drivers" libvirtd -f libvirtd.conf -p "$T_DIR/libvirtd.pid" >libvirtd.log 2>&1 &
trap 'kill $!; wait' EXIT
for turn in $(seq 200); do [ -S run/libvirt-sock ] && break; sleep 0.1; done
test -S run/libvirt-sock || { cat libvirtd.log; exit 1; }
virsh -c "test+ssh://$T_USER@$T_HOST/default?socket=$T_DIR/run/libvirt-sock&proxy=netcat" list --all | grep test
