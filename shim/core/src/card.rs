//! Which card: an identity that stays the same whatever a process hides or reorders.
//!
//! An ordinal shifts with `HIP_VISIBLE_DEVICES` and `ROCR_VISIBLE_DEVICES`; the PCI address and the UUID do not. The PCI
//! address is the form to prefer: every runtime knows it (`hipDeviceGetPCIBusId`, `HSA_AMD_AGENT_INFO_BDFID` with
//! `HSA_AMD_AGENT_INFO_DOMAIN`), a UUID is missing on some parts (`GPU-XX`). One ledger uses one form for one card: whoever
//! charges under both would have the card twice.

use crate::sys::text::Text;

/// The identity of a card: a PCI address with the partition number of the driver, or a 64-bit UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardId {
    /// `TAG_PCI | domain << 24 | partition << 16 | bus << 8 | device << 3 | function`, or `TAG_UUID`. Never 0.
    pub(crate) first: u64,
    /// 0, or the UUID.
    pub(crate) second: u64,
}

const TAG_PCI: u64 = 1 << 60;
const TAG_UUID: u64 = 2 << 60;
const TAG_POSITION: u64 = 3 << 60;

impl CardId {
    /// No card: what an empty entry of a table holds.
    pub(crate) const NONE: Self = Self { first: 0, second: 0 };

    /// A card by its PCI address; `partition` is 0 unless the card is split (CPX and the like), where several agents share the rest.
    pub const fn pci(domain: u32, bus: u8, device: u8, function: u8, partition: u8) -> Self {
        let slot = (bus as u64) << 8 | ((device & 31) as u64) << 3 | (function & 7) as u64;
        Self { first: TAG_PCI | (domain as u64) << 24 | (partition as u64) << 16 | slot, second: 0 }
    }

    /// A card by what HSA answers: `HSA_AMD_AGENT_INFO_BDFID` (partition in bits 28 to 31, then bus, device, function) and the domain.
    pub const fn from_bdfid(domain: u32, bdfid: u32) -> Self {
        Self::pci(domain, (bdfid >> 8) as u8, (bdfid >> 3) as u8, bdfid as u8, (bdfid >> 28) as u8)
    }

    /// A card by the 16 hexadecimal digits of its UUID (`GPU-73bce18fb2e0c5ef`).
    pub const fn uuid(uuid: u64) -> Self {
        Self { first: TAG_UUID, second: uuid }
    }

    /// A card that is neither, for runtimes that answer no address: its position.
    pub const fn position(position: u32) -> Self {
        Self { first: TAG_POSITION, second: position as u64 }
    }

    /// From the two words that a ledger's record holds, whatever they are.
    pub const fn from_words(first: u64, second: u64) -> Self {
        Self { first, second }
    }

    /// Reads `0000:c3:00.0`, `c3:00.0`, `GPU-73bce18fb2e0c5ef`; `_` may stand for each of the separators, as in the name of a variable.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if let Some((b"GPU" | b"gpu", digits)) = text.split_at_checked(3)
            && let Some((b'-' | b'_', digits)) = digits.split_first()
        {
            return (digits.len() == 16).then(|| hex(digits)).flatten().map(Self::uuid);
        }
        let mut fields = [0_u64; 4];
        let mut count = 0;
        for field in text.split(|byte| matches!(byte, b':' | b'.' | b'_')) {
            *fields.get_mut(count)? = hex(field)?;
            count += 1;
        }
        let [domain, bus, device, function] = match (count, fields) {
            (4, fields) => fields,
            (3, [bus, device, function, _]) => [0, bus, device, function],
            _ => return None,
        };
        let domain = u32::try_from(domain).ok()?;
        let bus = u8::try_from(bus).ok()?;
        (device < 32 && function < 8).then(|| Self::pci(domain, bus, device as u8, function as u8, 0))
    }

    /// A card by the 16 bytes that `hipDeviceGetUuid` answers: the digits of the UUID. `None`: they are something else.
    pub fn from_hex(digits: &[u8; 16]) -> Option<Self> {
        hex(digits).map(Self::uuid)
    }

    /// True if both are PCI addresses of one device, whatever its functions and partitions.
    pub fn same_slot(self, other: Self) -> bool {
        let slot = |id: Self| id.first & !0xff_0007;
        self.first & 0xf << 60 == TAG_PCI && slot(self) == slot(other)
    }

    /// Appends the identity as people write it.
    pub fn show(self, text: &mut Text) {
        match self.first & 0xf << 60 {
            TAG_PCI => {
                let (domain, partition, slot) = ((self.first >> 24) & 0xffff_ffff, (self.first >> 16) & 0xff, self.first & 0xffff);
                text.hex(domain, 4).str(":").hex(slot >> 8, 2).str(":").hex(slot >> 3 & 31, 2).str(".").hex(slot & 7, 1);
                if partition != 0 {
                    text.str("/").dec(partition);
                }
            }
            TAG_UUID => {
                text.str("GPU-").hex(self.second, 16);
            }
            _ => {
                text.str("card ").dec(self.second);
            }
        }
    }
}

/// One to eight hexadecimal digits, sixteen for a UUID.
fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut value = 0_u64;
    for &digit in digits {
        value = value << 4 | u64::from((digit as char).to_digit(16)?);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::CardId;
    use crate::sys::text::Text;

    fn shown(id: CardId) -> String {
        let mut text = Text::new();
        id.show(&mut text);
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn every_spelling_of_one_card_is_one_identity() {
        let card = CardId::pci(0, 0xc3, 0, 0, 0);
        for spelling in ["0000:c3:00.0", "0000_c3_00_0", "0000_C3_00_0", "c3:00.0", "0:c3:0.0"] {
            assert_eq!(CardId::parse(spelling.as_bytes()), Some(card), "{spelling}");
        }
        assert_eq!(CardId::from_bdfid(0, 0xc300), card);
        assert_eq!(shown(card), "0000:c3:00.0");
        assert_eq!(CardId::parse(b"10000:01:1f.7").map(shown).as_deref(), Some("10000:01:1f.7"));
    }

    #[test]
    fn partitions_of_a_card_are_cards() {
        assert_ne!(CardId::from_bdfid(0, 0x1000_c300), CardId::from_bdfid(0, 0x2000_c300));
        assert_eq!(shown(CardId::from_bdfid(1, 0x2000_c300)), "0001:c3:00.0/2");
    }

    #[test]
    fn uuids_have_sixteen_digits() {
        let card = CardId::uuid(0x73bc_e18f_b2e0_c5ef);
        assert_eq!(CardId::parse(b"GPU-73bce18fb2e0c5ef"), Some(card));
        assert_eq!(CardId::parse(b"GPU_73BCE18FB2E0C5EF"), Some(card));
        assert_eq!(shown(card), "GPU-73bce18fb2e0c5ef");
        assert_eq!(CardId::parse(b"GPU-XX"), None);
        assert_eq!(CardId::parse(b"GPU-73bce18fb2e0c5e"), None);
    }

    #[test]
    fn what_is_no_card_is_refused() {
        for text in [
            "",
            "0",
            "c3",
            "00:00",
            "0000:c3:20.0",
            "0000:c3:00.8",
            "0000:1c3:00.0",
            "0000:c3:00.0.0",
            "0000:c3::0",
            "x:c3:00.0",
            "123456789:00:00.0",
        ] {
            assert_eq!(CardId::parse(text.as_bytes()), None, "{text}");
        }
    }
}
