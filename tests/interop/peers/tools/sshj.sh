# SSHJ.
java -cp "$T_TARGET/peers-java/new/*" "$T_PEERS/tools/SshjClient.java"
