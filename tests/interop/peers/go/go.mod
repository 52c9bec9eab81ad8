module tunnel

go 1.18

require golang.org/x/crypto v0.23.0

require golang.org/x/sys v0.20.0 // indirect
