# Its command line over ssh://: a service there is reached by "docker system dial-stdio".
exec 9>"$T_TARGET/docker.lock"
flock 9
test ! -e /var/run/docker.sock
python3 "$T_PEERS/tools/docker_service.py" /var/run/docker.sock 9>&- &
trap 'kill $!; rm -f /var/run/docker.sock' EXIT
while [ ! -e /var/run/docker.sock ]; do sleep 0.1; done
export DOCKER_CONFIG="$T_DIR/docker"
docker -H "ssh://$T_HOST" version --format '{{.Server.Version}}' | grep -qx 1.2.3
docker context create far --docker "host=ssh://$T_USER@$T_HOST" >/dev/null
test "$(docker --context far ps -q)" = 0123456789ab
