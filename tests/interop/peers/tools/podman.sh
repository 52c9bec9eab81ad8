# podman's remote client (Go's x/crypto/ssh): its own service's socket through direct-streamlocal.
socket="$T_DIR/podman.sock"
python3 "$T_PEERS/tools/docker_service.py" "$socket" &
trap 'kill $!' EXIT
while [ ! -e "$socket" ]; do sleep 0.1; done
mkdir -p home/.ssh
cp "$T_KNOWN_HOSTS" home/.ssh/known_hosts
export HOME="$T_DIR/home"
podman --remote --url "ssh://$T_USER@127.0.0.1:$T_PORT$socket" --identity "$T_KEY" ps -q | grep -q 0123456789ab
