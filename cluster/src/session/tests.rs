use super::*;

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32])
}

fn joined() -> (Channel, Channel) {
    let (agent, greeting) = Initiator::begin(secret(1)).unwrap();
    let (supervisor, answer) = Responder::begin(secret(1), &greeting).unwrap();
    let (proof, agent) = agent.finish(&answer).unwrap();
    (agent, supervisor.finish(&proof).unwrap())
}

fn open(opener: &mut Opener, frame: &[u8]) -> Result<Vec<u8>, SessionError> {
    let (head, sealed) = frame.split_first_chunk::<LENGTH_BYTES>().unwrap();
    assert_eq!(Opener::length(*head).unwrap(), sealed.len());
    let mut sealed = sealed.to_vec();
    opener.open(*head, &mut sealed).map(<[u8]>::to_vec)
}

#[test]
fn both_ends_read_what_the_other_says_and_share_a_binding() {
    let (mut agent, mut supervisor) = joined();
    assert_eq!(agent.binding, supervisor.binding);
    for message in [&b"one"[..], b"", b"three"] {
        let frame = agent.sealer.seal(message).unwrap();
        assert_eq!(open(&mut supervisor.opener, &frame).unwrap(), message);
        let frame = supervisor.sealer.seal(message).unwrap();
        assert_eq!(open(&mut agent.opener, &frame).unwrap(), message);
    }
}

#[test]
fn who_does_not_know_the_secret_is_refused_by_either_end() {
    let (agent, greeting) = Initiator::begin(secret(1)).unwrap();
    let (supervisor, answer) = Responder::begin(secret(2), &greeting).unwrap();
    assert_eq!(agent.finish(&answer).unwrap_err(), SessionError::Unproven);
    // What the supervisor has proven itself with proves nothing of an agent.
    let proof = answer[GREETING_BYTES..].try_into().unwrap();
    assert_eq!(
        supervisor.finish(&proof).unwrap_err(),
        SessionError::Unproven
    );
}

#[test]
fn a_recorded_handshake_is_not_accepted_again() {
    let (agent, greeting) = Initiator::begin(secret(1)).unwrap();
    let (_, answer) = Responder::begin(secret(1), &greeting).unwrap();
    let (proof, _) = agent.finish(&answer).unwrap();
    let (again, _) = Responder::begin(secret(1), &greeting).unwrap();
    assert_eq!(again.finish(&proof).unwrap_err(), SessionError::Unproven);
}

#[test]
fn strangers_and_other_versions_are_told_apart() {
    let (_, greeting) = Initiator::begin(secret(1)).unwrap();
    let mut other = greeting;
    other[8] = 9;
    let refused = |bytes| Responder::begin(secret(1), &bytes).unwrap_err();
    assert_eq!(refused(other), SessionError::Version(9));
    assert_eq!(refused([0; GREETING_BYTES]), SessionError::Stranger);
}

#[test]
fn frames_that_are_changed_repeated_left_out_or_sent_back_are_refused() {
    for what in ["changed", "length", "repeated", "left out", "sent back"] {
        let (mut agent, mut supervisor) = joined();
        let mut frame = agent.sealer.seal(b"message").unwrap();
        let opener = match what {
            "sent back" => &mut agent.opener,
            _ => &mut supervisor.opener,
        };
        match what {
            "changed" => frame[6] ^= 1,
            "length" => {
                frame.pop();
                frame[0] -= 1;
            }
            "repeated" => drop(open(opener, &frame).unwrap()),
            "left out" => frame = agent.sealer.seal(b"next").unwrap(),
            _ => {}
        }
        assert_eq!(
            open(opener, &frame).unwrap_err(),
            SessionError::Forged,
            "{what}"
        );
    }
}

#[test]
fn lengths_are_bounded() {
    for length in [0u32, 15, u32::MAX] {
        Opener::length(length.to_le_bytes()).unwrap_err();
    }
    let (mut agent, _) = joined();
    agent
        .sealer
        .seal(&vec![0; MESSAGE_BYTES_MAX + 1])
        .unwrap_err();
}

#[test]
fn a_secret_is_written_in_digits_and_never_printed() {
    let secret = Secret::draw().unwrap();
    assert_eq!(Secret::from_hex(&secret.to_hex()).unwrap(), secret);
    assert_eq!(format!("{secret:?}"), "Secret(..)");
    for wrong in ["", "zz", &"é".repeat(32), &"g".repeat(64)] {
        assert_eq!(Secret::from_hex(wrong), None);
    }
}
