// Command agent is Go's golang.org/x/crypto/ssh/agent as a client of the agent of SSH_AUTH_SOCK: it
// signs with each key and verifies, adds a key with constraints, locks and removes. It prints one line
// a step.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func main() {
	connection, err := net.Dial("unix", os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		log.Fatal(err)
	}
	client := agent.NewClient(connection)
	keys, err := client.List()
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range keys {
		flags := agent.SignatureFlags(0)
		if key.Format == ssh.KeyAlgoRSA {
			flags = agent.SignatureFlagRsaSha512
		}
		signature, err := client.SignWithFlags(key, []byte("data"), flags)
		if err != nil {
			log.Fatal(err)
		}
		public, err := ssh.ParsePublicKey(key.Blob)
		if err != nil {
			log.Fatal(err)
		}
		if err := public.Verify([]byte("data"), signature); err != nil {
			log.Fatal(err)
		}
		fmt.Println("signed", key.Format)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	added := agent.AddedKey{PrivateKey: &private, LifetimeSecs: 600, ConfirmBeforeUse: true}
	if err := client.Add(added); err != nil {
		log.Fatal(err)
	}
	count(client)
	if err := client.Lock([]byte("sesame")); err != nil {
		log.Fatal(err)
	}
	count(client)
	if client.Unlock([]byte("wrong")) == nil {
		log.Fatal("unlocked by a wrong passphrase")
	}
	if err := client.Unlock([]byte("sesame")); err != nil {
		log.Fatal(err)
	}
	if err := client.RemoveAll(); err != nil {
		log.Fatal(err)
	}
	count(client)
}

func count(client agent.Agent) {
	keys, err := client.List()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listed", len(keys))
}
