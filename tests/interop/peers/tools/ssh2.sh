# npm's ssh2.
NODE_PATH="$T_TARGET/peers-node/node_modules" node "$T_PEERS/tools/ssh2_client.js"
