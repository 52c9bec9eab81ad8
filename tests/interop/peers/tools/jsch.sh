# JSch, the version of com.github.mwiede.
java -cp "$T_TARGET/peers-java/new/*" "$T_PEERS/tools/JschClient.java"
