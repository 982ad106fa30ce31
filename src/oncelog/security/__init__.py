"""The identity of the other end of a connection: TLS, SASL, tokens and the principal that each of them yields.

Nothing here decides what a principal may do; the authorizer does. Nothing here reads a socket. A module takes bytes or
a certificate and returns bytes or a `Principal`. Three modules touch the machine: `tls` reads PEM files, `pki` writes
them, `jwks` fetches keys.

A plain `pip install oncelog` imports every module and serves TLS, PLAIN and SCRAM with the standard library alone.
`pki` and OAUTHBEARER need the extra `security` (`cryptography`, `pyjwt`); they import it when they are used.
"""
