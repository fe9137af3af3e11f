"""A postfix of its own, as a relay that encrypts and asks who is there, and hands all mail on to one server.

    python postfix.py PORT USER PASSWORD

Needs root, as postfix does, or sudo, and nothing of /etc/postfix. Prints a JSON object with what a client needs: the ports
`starttls` and `tls`, and in `ca` the path of the issuer's certificate. Serves until its standard input ends; then hands
on what it still has, and stops. Its log goes to standard error at the end.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REALM = "relay.test"
START_SECONDS = 30
# For mail to leave.
QUEUE_SECONDS = 30

MAIN = """\
compatibility_level = 3.6
queue_directory = {home}/queue
data_directory = {home}/data
maillog_file = {home}/log
maillog_file_prefixes = {home}
myhostname = {realm}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
# Names are asked for nowhere: there may be no name server.
smtpd_peername_lookup = no
smtp_dns_support_level = disabled
smtp_host_lookup = native
mydestination =
mynetworks =
alias_maps =
alias_database =
local_recipient_maps =
relayhost = [127.0.0.1]:{port}
smtp_tls_security_level = none
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_recipient_restrictions = permit_sasl_authenticated, reject
smtpd_tls_cert_file = {home}/certificate.pem
smtpd_tls_key_file = {home}/key.pem
smtpd_tls_auth_only = yes
smtpd_sasl_auth_enable = yes
smtpd_sasl_local_domain = {realm}
# Debian's postfix looks there whatever is said here.
cyrus_sasl_config_path = {home}/config/sasl
"""

# Nothing is chrooted: the libraries, the certificate and the passwords are outside of the queue.
MASTER = """\
127.0.0.1:{starttls} inet n - n - - smtpd -o smtpd_tls_security_level=encrypt
127.0.0.1:{tls} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""

SASL = """\
pwcheck_method: auxprop
auxprop_plugin: sasldb
sasldb_path: {home}/passwords
mech_list: PLAIN LOGIN
"""


def run(*command, **given):
    """Runs a command. What it says goes to standard error, by way of a file: daemons keep a pipe open."""
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command, stdout=said, stderr=said, timeout=START_SECONDS, **{"stdin": subprocess.DEVNULL} | given
        )
        said.seek(0)
        sys.stderr.write(said.read().decode(errors="replace"))
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")


def free_ports(count):
    """Ports from below those that the system gives to outgoing connections."""
    found = []
    while len(found) < count:
        port = random.randrange(10_000, 20_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def certify(home):
    """A certificate for 127.0.0.1, and an issuer to trust."""
    new = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    settings = home / "openssl.cnf"
    settings.write_text(
        "[req]\ndistinguished_name = name\n[name]\n"
        "[issuer]\nbasicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign\n"
        "[server]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n"
    )
    ca, ca_key = home / "ca.pem", home / "ca-key.pem"
    named = ["-config", settings, "-subj"]
    run(*map(str, [*new, *named, "/CN=Issuer", "-extensions", "issuer", "-keyout", ca_key, "-out", ca]))
    server = ["-extensions", "server", "-CA", ca, "-CAkey", ca_key]
    out = ["-keyout", home / "key.pem", "-out", home / "certificate.pem"]
    run(*map(str, [*new, *named, f"/CN={REALM}", *server, *out]))
    return ca


def admit(home, user, password):
    """Who may log in, in a database of its own. It is read by the user that postfix runs as."""
    sasl = home / "config/sasl"
    sasl.mkdir(parents=True)
    (sasl / "smtpd.conf").write_text(SASL.format(home=home))
    passwords = home / "passwords"
    command = ["saslpasswd2", "-c", "-p", "-f", str(passwords), "-u", REALM, user]
    run(*command, stdin=None, input=password.encode())
    shutil.chown(passwords, "postfix")


def configure(home, port):
    starttls, tls = free_ports(2)
    (home / "queue").mkdir()
    (home / "data").mkdir()
    shutil.chown(home / "data", "postfix")
    config = home / "config"
    (config / "main.cf").write_text(MAIN.format(home=home, realm=REALM, port=port))
    (config / "master.cf").write_text(MASTER.format(starttls=starttls, tls=tls))
    return config, {"starttls": starttls, "tls": tls}


def until_empty(queue):
    """Waits until all mail has been handed on. Looked at in the order in which mail passes through."""
    end = time.monotonic() + QUEUE_SECONDS
    places = ["maildrop", "incoming", "active", "deferred", "hold", "corrupt"]
    while left := [name for place in places for _, _, names in os.walk(queue / place) for name in names]:
        if time.monotonic() > end:
            sys.exit(f"mail was not handed on: {left}")
        time.sleep(0.02)


def stop(home, config):
    if (home / "queue/pid/master.pid").exists():
        run("postfix", "-c", str(config), "stop")


def show(log):
    if log.exists():
        sys.stderr.write(log.read_text(errors="replace"))


def check_needs():
    # They are not in everybody's path.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.geteuid() != 0:
        # As `./test` installs: with a sudo that asks nothing.
        if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
            os.execvp("sudo", ["sudo", "-n", sys.executable, *sys.argv])
        sys.exit("postfix can be started by root only\nhint: run the tests as root, or with a sudo that asks nothing")
    for command in ["postfix", "saslpasswd2", "openssl"]:
        if not shutil.which(command):
            sys.exit(f"{command} is missing\nhint: run ./test, which installs it")


def main():
    port, user, password = sys.argv[1:]
    check_needs()
    # An end by a signal is one that stops the daemons.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    # Not in the target directory: what leads there may be closed to the user that postfix runs as.
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        home.chmod(0o755)
        told = {"ca": str(certify(home))}
        admit(home, user, password)
        config, ports = configure(home, port)
        with contextlib.ExitStack() as at_end:
            at_end.callback(show, home / "log")
            at_end.callback(stop, home, config)
            run("postfix", "-c", str(config), "start")
            print(json.dumps(told | ports), flush=True)
            sys.stdin.read()
            until_empty(home / "queue")


main()
