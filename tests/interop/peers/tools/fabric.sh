# Fabric (paramiko): commands, sudo's absence, files.
"$T_TARGET/peers-tools/bin/python" "$T_PEERS/tools/fabric_client.py"
