# Apache MINA SSHD as a client.
java -cp "$T_TARGET/peers-java/new/*" "$T_PEERS/tools/MinaClient.java"
