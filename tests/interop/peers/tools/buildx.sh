# docker buildx with a builder at an ssh:// context: it asks the engine there by "docker system dial-stdio" for its container.
exec 9>"$T_TARGET/docker.lock"
flock 9
test ! -e /var/run/docker.sock
python3 "$T_PEERS/tools/docker_service.py" /var/run/docker.sock 9>&- &
trap 'kill $!; rm -f /var/run/docker.sock' EXIT
while [ ! -e /var/run/docker.sock ]; do sleep 0.1; done
export DOCKER_CONFIG="$T_DIR/docker"
mkdir -p docker/cli-plugins
cp "$T_TARGET/peers-buildx/docker-buildx" docker/cli-plugins/
docker context create far --docker "host=ssh://$T_USER@$T_HOST" >/dev/null
docker buildx create --name builder far >/dev/null
docker buildx inspect builder >seen 2>&1 || { cat seen; exit 1; }
# The engine's answer: it has no container of this builder yet.
grep -qx 'Status: *inactive' seen || { cat seen; exit 1; }
# An engine that is not there is told from that.
docker context create nowhere --docker "host=ssh://$T_USER@$T_HOST/nowhere.sock" >/dev/null
if docker buildx create --name lost nowhere >seen 2>&1; then cat seen; exit 1; fi
grep -q 'Cannot connect to the Docker daemon' seen || { cat seen; exit 1; }
