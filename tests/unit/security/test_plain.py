"""PLAIN: Kafka's texts, the users file, and what neither a refusal nor an error may show."""

import sys

import pytest

from oncelog.security.plain import (
    ClearPassword,
    PlainClient,
    PlainServer,
    hash_password,
    parse_users,
)
from oncelog.security.principal import Principal
from oncelog.security.sasl import IllegalSaslStateError, SaslAuthenticationError

USERS = parse_users(f"alice:{hash_password('päss:{word}')}\nbob:{{PLAIN}} secret \n", "users.txt")


def server():
    return PlainServer(USERS.get)


@pytest.mark.parametrize(("user", "password"), [("alice", "päss:{word}"), ("bob", " secret ")])
def test_a_user_of_the_file_gets_in(user, password):
    one, client = server(), PlainClient(user, password)
    assert client.evaluate(one.evaluate(client.evaluate(b""))) == b""
    assert client.is_complete
    assert one.principal == Principal("User", user)
    assert one.session_expires_at_ms is None


def test_the_message_is_the_one_of_rfc_4616():
    assert PlainClient("tim", "tanstaaftanstaaf").evaluate(b"") == b"\0tim\0tanstaaftanstaaf"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0bob", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0bob\0 secret \0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0 secret ", "Authentication failed: username not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0bob\0secret", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0 secret ", "Authentication failed: Invalid username or password"),
        (b"\0alice\0\xff", "Authentication failed: Invalid username or password"),
        (
            b"alice\0bob\0 secret ",
            "Authentication failed: Client requested an authorization id "
            "that is different from username",
        ),
    ],
)
def test_a_refused_client_reads_kafkas_text(message, said):
    one = server()
    with pytest.raises(SaslAuthenticationError) as refused:
        one.evaluate(message)
    assert str(refused.value) == said
    assert not one.is_complete
    with pytest.raises(IllegalSaslStateError):
        one.evaluate(b"\0bob\0 secret ")
    with pytest.raises(IllegalSaslStateError):
        assert one.principal


def test_an_authorization_id_may_repeat_the_user():
    one = server()
    assert one.evaluate(b"bob\0bob\0 secret ") == b""
    assert one.principal.name == "bob"


def test_the_log_and_only_the_log_reads_why():
    with pytest.raises(SaslAuthenticationError) as unknown:
        server().evaluate(b"\0mallory\0secret")
    with pytest.raises(SaslAuthenticationError) as wrong:
        server().evaluate(b"\0bob\0secret")
    assert str(unknown.value) == str(wrong.value)
    assert unknown.value.reason == "no PLAIN user is named 'mallory'"
    assert wrong.value.reason == "wrong password of PLAIN user 'bob'"


@pytest.mark.parametrize("message", [b"\0mallory\0x", b"\0bob\0x", b"\0alice\0x"])
def test_every_refusal_costs_one_scrypt(message):
    """Of an unknown user, of a clear password and of a hashed one: the time of an answer shows no name."""
    called = []
    one = server()
    sys.setprofile(lambda frame, event, function: called.append(getattr(function, "__name__", "")))
    try:
        with pytest.raises(SaslAuthenticationError):
            one.evaluate(message)
    finally:
        sys.setprofile(None)
    assert called.count("scrypt") == 2  # its call and its return


def test_a_password_that_matched_once_matches_again():
    verifier = parse_users(f"alice:{hash_password('right')}", "users.txt")["alice"]
    tried = [verifier.matches(password) for password in ("wrong", "right", "right", "wrong")]
    assert tried == [False, True, True, False]


def test_two_hashes_of_one_password_differ():
    assert hash_password("secret") != hash_password("secret")
    assert "secret" not in hash_password("secret")


def test_no_verifier_prints_its_secret():
    assert repr(ClearPassword("secret")) == "ClearPassword()"
    assert repr(USERS["alice"]) == "ScryptPassword(log_n=14, r=8, p=1)"


def test_comments_and_empty_lines_are_left_out():
    assert list(parse_users("# who\r\n\r\nalice:{PLAIN}x\r\n", "users.txt")) == ["alice"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("alice", "write user:{SCRYPT}hash or user:{PLAIN}password"),
        (":{PLAIN}secret", "write user:{SCRYPT}hash or user:{PLAIN}password"),
        ("alice:secret", "begins with neither {SCRYPT} nor {PLAIN}"),
        ("alice:{MD5}secret", "begins with neither {SCRYPT} nor {PLAIN}"),
        ("alice:{PLAIN}", "the password is empty"),
        ("bob:{PLAIN}secret", "user 'bob' is there twice"),
        ("alice:{SCRYPT}secret", "a hash has the form {SCRYPT}ln=14,r=8,p=1$salt$hash"),
        ("alice:{SCRYPT}ln=40,r=8,p=1$c2FsdA==$secret", "ln=40,r=8,p=1 is out of bounds"),
        ("alice:{SCRYPT}ln=14,r=8,p=1$c2FsdA==$secret!", "written in base64"),
        ("alice:{SCRYPT}ln=14,r=8,p=1$c2FsdA==$c2VjcmV0", "the hash has 6 bytes"),
    ],
)
def test_a_bad_line_is_named_without_its_password(line, said):
    with pytest.raises(ValueError, match=r"^users\.txt, line 2: ") as refused:
        parse_users(f"bob:{{PLAIN}}x\n{line}\n", "users.txt")
    assert said in str(refused.value)
    assert "secret" not in repr(refused.value)


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("a\0b", "x"), ("a", ""), ("a", "x\0y")])
def test_a_client_refuses_what_cannot_be_sent(user, password):
    with pytest.raises(ValueError, match="NUL"):
        PlainClient(user, password)


def test_a_client_answers_no_challenge():
    with pytest.raises(SaslAuthenticationError, match="sent a challenge"):
        PlainClient("alice", "secret").evaluate(b"password, please")
