// Command tunnel is Go's golang.org/x/crypto/ssh as a client that forwards. Its arguments are those
// of tunnel.py, without -D. With -C and a port it asks to listen there, without wanting a reply, and
// takes that back at once.
package main

import (
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// place is the network and address of a listener or target.
func place(spec string) (string, string) {
	switch {
	case strings.HasPrefix(spec, "/"):
		return "unix", spec
	case strings.Contains(spec, ":"):
		return "tcp", spec
	default:
		return "tcp", "127.0.0.1:" + spec
	}
}

type halfCloser interface{ CloseWrite() error }

// pump copies until the end, and passes it on.
func pump(to, from net.Conn, done chan<- struct{}) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
	} else if half, ok := to.(halfCloser); ok {
		half.CloseWrite()
	}
	done <- struct{}{}
}

// serve joins each connection of a listener to one to the target.
func serve(listener net.Listener, dial func() (net.Conn, error)) {
	for {
		accepted, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer accepted.Close()
			dialed, err := dial()
			if err != nil {
				return
			}
			defer dialed.Close()
			done := make(chan struct{}, 2)
			go pump(dialed, accepted, done)
			go pump(accepted, dialed, done)
			<-done
			<-done
		}()
	}
}

func main() {
	options := map[string]string{}
	var forwards [][2]string
	var cancelled []string
	for at := 1; at < len(os.Args); at++ {
		if flag := os.Args[at]; flag == "-L" || flag == "-R" {
			at++
			forwards = append(forwards, [2]string{flag, os.Args[at]})
		} else if flag == "-C" {
			at++
			cancelled = append(cancelled, os.Args[at])
		} else if name, value, ok := strings.Cut(flag, "="); ok {
			options[name] = value
		}
	}
	text, err := os.ReadFile(options["identity"])
	if err != nil {
		log.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		log.Fatal(err)
	}
	known, err := knownhosts.New(options["known_hosts"])
	if err != nil {
		log.Fatal(err)
	}
	client, err := ssh.Dial("tcp", "127.0.0.1:"+options["port"], &ssh.ClientConfig{
		User:            options["user"],
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: known,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, forward := range forwards {
		from, to, _ := strings.Cut(forward[1], ":")
		fromNet, fromAddress := place(from)
		toNet, toAddress := place(to)
		var listener net.Listener
		dial := func() (net.Conn, error) { return client.Dial(toNet, toAddress) }
		if forward[0] == "-L" {
			listener, err = net.Listen(fromNet, fromAddress)
		} else {
			listener, err = client.Listen(fromNet, fromAddress)
			dial = func() (net.Conn, error) { return net.Dial(toNet, toAddress) }
		}
		if err != nil {
			log.Fatal(err)
		}
		go serve(listener, dial)
	}
	for _, port := range cancelled {
		number, err := strconv.Atoi(port)
		if err != nil {
			log.Fatal(err)
		}
		fields := ssh.Marshal(struct {
			Address string
			Port    uint32
		}{"localhost", uint32(number)})
		if _, _, err := client.SendRequest("tcpip-forward", false, fields); err != nil {
			log.Fatal(err)
		}
		ok, _, err := client.SendRequest("cancel-tcpip-forward", true, fields)
		log.Println("cancelled", ok, err)
	}
	log.Fatal(client.Wait())
}
