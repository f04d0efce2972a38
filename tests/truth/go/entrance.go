// How the workers on Go's clients get in: settings under librdkafka's names.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// A setting, or the empty string.
func text(more map[string]any, name string) string {
	found, _ := more[name].(string)
	return found
}

// Of TLS, with a certificate of the client if there is one; nil where nothing is encrypted.
func tlsConfig(more map[string]any) (*tls.Config, error) {
	authority := text(more, "ssl.ca.location")
	if authority == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", authority)
	}
	if own := text(more, "ssl.certificate.location"); own != "" {
		pair, err := tls.LoadX509KeyPair(own, text(more, "ssl.key.location"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
