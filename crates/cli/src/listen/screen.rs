//! The terminal: keys in, paintings out, on a thread of its own.

use std::io::{Write, stdout};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use data_encoding::BASE64;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use restante_server::clock::Clock;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::mpsc::error::TryRecvError;

use super::event::Event;
use super::queue::Queue;
use super::view::{Action, Key, View};

/// How long events wait to be painted.
const FRAME_TIME: Duration = Duration::from_millis(80);
/// A painting without news: what counts down goes on.
const REPAINT_MS: i64 = 500;
/// Terminals cut what is longer.
const CLIPBOARD_BYTES_MAX: usize = 74_000;

/// Shows the view until the events are over. The terminal is as before then, also after a panic.
///
/// # Errors
/// The terminal cannot be read or written.
pub(crate) fn run(
    mut view: View,
    mut events: Queue,
    actions: &UnboundedSender<Action>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<()> {
    // A terminal that cannot be painted on is told as an error, and put back first.
    let mut terminal = ratatui::try_init().context("the terminal cannot be painted on")?;
    let shown = show(&mut terminal, &mut view, &mut events, actions, clock.as_ref());
    let restored = ratatui::try_restore().context("the terminal cannot be put back");
    shown.and(restored)
}

fn show(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    events: &mut Queue,
    actions: &UnboundedSender<Action>,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    let (mut news, mut painted_ms) = (true, 0);
    loop {
        let now = clock.now();
        loop {
            match events.try_next() {
                Ok(Event::Over) | Err(TryRecvError::Disconnected) => return Ok(()),
                Ok(event) => view.update(event, now),
                Err(TryRecvError::Empty) => break,
            }
            news = true;
        }
        if news || now.millis().saturating_sub(painted_ms).abs() >= REPAINT_MS {
            terminal.draw(|frame| view.paint(frame, now)).context("the terminal is gone")?;
            (news, painted_ms) = (false, now.millis());
        }
        // Keys that are pressed one right after the other are all taken before the next painting.
        let mut time = FRAME_TIME;
        while event::poll(time).context("the terminal is gone")? {
            let input = event::read().context("the terminal is gone")?;
            news = true;
            time = Duration::ZERO;
            let pressed = key(&input).and_then(|key| view.press(key, clock.now()));
            if let Some(action) = pressed {
                if let Action::Copy(text) = &action {
                    copy(text)?;
                }
                // Whoever acts is on the way out: there is nothing left to do.
                let _ = actions.send(action);
            }
        }
    }
}

/// Puts a text into the clipboard of the terminal, which may be far away (OSC 52).
fn copy(text: &str) -> anyhow::Result<()> {
    if text.len() > CLIPBOARD_BYTES_MAX {
        return Ok(());
    }
    let mut out = stdout().lock();
    write!(out, "\x1b]52;c;{}\x07", BASE64.encode(text.as_bytes())).and_then(|()| out.flush())?;
    Ok(())
}

/// Whether a text is short enough for the clipboard.
pub(crate) fn fits_clipboard(text: &str) -> bool {
    text.len() <= CLIPBOARD_BYTES_MAX
}

fn key(input: &Input) -> Option<Key> {
    let Input::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) =
        input
    else {
        return None;
    };
    if modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(code, KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    let keys = [
        (KeyCode::Up, Key::Up),
        (KeyCode::Down, Key::Down),
        (KeyCode::PageUp, Key::PageUp),
        (KeyCode::PageDown, Key::PageDown),
        (KeyCode::Home, Key::Home),
        (KeyCode::End, Key::End),
        (KeyCode::Esc, Key::Back),
        (KeyCode::Backspace, Key::Back),
        (KeyCode::Enter, Key::Enter),
    ];
    if let KeyCode::Char(char) = code {
        return Some(Key::Char(*char));
    }
    keys.into_iter().find(|(known, _)| known == code).map(|(_, key)| key)
}
