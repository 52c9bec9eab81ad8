# JSch 0.1.55 of com.jcraft, the last one of its line: keys in PEM, no Ed25519, RSA by SHA-1 only.
cp "$T_ECDSA_KEY" key
chmod 600 key
ssh-keygen -q -p -P '' -N '' -m PEM -f key
export T_ECDSA_KEY="$T_DIR/key"
java -cp "$T_TARGET/peers-java/old/*" "$T_PEERS/tools/JschClient.java"
