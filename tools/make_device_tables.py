"""Generate python/pypto_sim/devices/<name>.toml from the commented hardware tables.

    python tools/make_device_tables.py [HARDWARE_FOLDER]        # default: ../shared/hardware beside the repository

Every `key = value  # [confidence] source` becomes `key = {value, confidence, source}` under the same section. The
columns of devices.csv replace the values of the row's table; `hbm_scale` multiplies the HBM rates that were fitted on
the table's default chip. What a table lacks and the cost model needs is carried over from the A2 table and says so.
Numbers fitted here on published timings are in tools/fitted.toml.
"""
import csv
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FITTED = ROOT / "tools" / "fitted.toml"
OUT = ROOT / "python" / "pypto_sim" / "devices"
KEY = re.compile(r"^\s*(\w+)\s*=")
TAG = re.compile(r"^\[([^\]]*)\]\s*(.*)$")
BARE_TAG = re.compile(r"\[(documented|measured|inferred|simulator|measured-fit|documented-fit)[^\]]*\]")
PATH = re.compile(r"[\w.-]+:[\w./{},-]*/[\w./{},-]+")
SCALED = ("stream_model.hbm_read_gbs", "stream_model.hbm_write_gbs", "stream_model.decode_attention",
          "vector_stream.hbm_gbs")

# Keys the cost model reads on every chip; where a table has none the A2 value is carried over.
CARRIED = (
    "capacity.l2_line",
    "cube.mac_per_cycle_int4",
    "bandwidth.gm_to_ub_l2hit_bpc", "bandwidth.gm_to_ub_fixed_cycles", "bandwidth.ub_to_gm_bpc",
    "bandwidth.mte1_issue_cycles", "bandwidth.l0c_to_l1_bpc", "bandwidth.l1_to_bt_bpc", "bandwidth.l1_to_fb_bpc",
    "bandwidth.l1_to_gm_bpc", "bandwidth.ub_to_ub_bpc_measured",
    "latency.gm_write_latency", "latency.l2_hit_latency", "latency.cross_core_tile_sync", "latency.pipe_barrier",
    "latency.pipe_v_barrier_effective",
    "pypto_runtime.submit_latency", "pypto_runtime.aicpu_machines",
)
CARRIED_SECTIONS = ("vector_instr", "tile_reduce")


def split_comment(line: str) -> tuple[str, str]:
    """(code, comment) of one TOML line; a # inside a string is not a comment."""
    quoted = False
    for i, ch in enumerate(line):
        if ch == '"':
            quoted = not quoted
        elif ch == "#" and not quoted:
            return line[:i], line[i + 1:].strip()
    return line, ""


def read_table(path: Path) -> dict[str, dict[str, dict]]:
    """{section: {key: {value, confidence, source}}} of one commented table."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    out: dict[str, dict[str, dict]] = {}
    section, section_tag, previous, file_in_section = "", ("", ""), ("", ""), ""
    for line in path.read_text(encoding="utf-8").splitlines():
        code, comment = split_comment(line)
        if code.strip().startswith("["):
            section, section_tag, previous = code.strip().strip("[]"), ("", comment), ("", "")
            file_in_section = ""
            out[section] = {}
            continue
        match = KEY.match(code)
        if not match:
            bare = BARE_TAG.search(comment)
            if comment and section and (bare or PATH.search(comment)):
                tag = bare.group(0).strip("[]") if bare else ""
                section_tag = (tag, BARE_TAG.sub("", comment).strip().removeprefix("Source:").strip())
            continue
        tagged = TAG.match(comment)
        confidence, source = (tagged.group(1), tagged.group(2).lstrip("; ")) if tagged else section_tag
        file_in_section = file_in_section or (PATH.findall(source) or [""])[0]
        if "same file" in source:
            source = source.replace("same file", file_in_section)
        elif source == "same" or not source:
            source = previous[1] or section_tag[1]
        if len(source) < 16:
            source = f"{source} (as in {path.name})"
        if not source or not confidence:
            raise SystemExit(f"{path.name}: {section}.{match.group(1)} has no source")
        previous = (confidence, source)
        out[section][match.group(1)] = {"value": values[section][match.group(1)], "confidence": confidence,
                                        "source": source}
    return out


def carry_over(table: dict, a2: dict) -> None:
    wanted = [tuple(k.split(".")) for k in CARRIED] + [(s, k) for s in CARRIED_SECTIONS for k in a2[s]]
    for section, key in wanted:
        if key.endswith("_alt") or key in table.setdefault(section, {}):
            continue
        entry = a2[section][key]
        table[section][key] = {"value": entry["value"], "confidence": "inferred",
                               "source": f"carried over from ascend_a2.toml ({entry['confidence']}: {entry['source']})"}


def number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def device(row: dict[str, str], folder: Path) -> dict[str, dict[str, dict]]:
    table = read_table(folder / row["toml"])
    carry_over(table, read_table(folder / "ascend_a2.toml"))
    soc = table["chip"].pop("soc_default")
    table["chip"]["soc"] = soc
    documented, inferred = "documented", "inferred"
    for column, text in row.items():
        if "." not in column or not text:
            continue
        section, key = column.split(".")
        confidence = inferred if column == "chip_bandwidth.hbm_gbs" else documented
        if column == "capacity.gm" and "carried over" in row["confidence"]:
            confidence = inferred
        table[section][key] = {"value": number(text), "confidence": confidence,
                               "source": f"{row['source']} ({row['confidence']})"}
    add_fitted(table)
    scale = float(row["hbm_scale"])
    for name in SCALED:
        section, key = name.split(".")
        entry = table[section].get(key)
        if entry is None or scale == 1:
            continue
        value = entry["value"]
        value = [value[0], value[1] * scale] if isinstance(value, list) else value * scale
        table[section][key] = {"value": value, "confidence": inferred,
                               "source": f"{entry['source']}; times hbm_scale {scale:g} of devices.csv"}
    return table


def add_fitted(table: dict) -> None:
    """The numbers of fitted.toml; they go before what the hardware table has under the same key."""
    chip = "A2A3" if str(table["chip"]["npu_arch"]["value"]) == "2201" else "950"
    for section, keys in tomllib.loads(FITTED.read_text(encoding="utf-8")).get(chip, {}).items():
        for key, entry in keys.items():
            table.setdefault(section, {})[key] = {"value": entry["value"], "confidence": "fitted",
                                                  "source": entry["source"]}


def text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(text_of(v) for v in value) + "]"
    return repr(value)


def write(name: str, row: dict[str, str], table: dict) -> None:
    chip = "A2A3" if str(table["chip"]["npu_arch"]["value"]) == "2201" else "950"
    lines = ["# Generated by tools/make_device_tables.py; do not edit.", "[device]",
             f"name = {text_of(name)}", f"chip = {text_of(chip)}", f"kind = {text_of(row['kind'])}",
             f"confidence = {text_of(row['confidence'])}", f"source = {text_of(row['source'])}",
             f"calibration_soc = {text_of([s for s in row['calibration_soc'].split('; ') if s])}"]
    for section, keys in table.items():
        lines += ["", f"[{section}]"]
        for key, entry in keys.items():
            fields = ", ".join(f"{k} = {text_of(entry[k])}" for k in ("value", "confidence", "source"))
            lines.append(f"{key} = {{{fields}}}")
    (OUT / f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "hardware"
    OUT.mkdir(parents=True, exist_ok=True)
    with open(folder / "devices.csv", encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            write(row["name"], row, device(row, folder))


if __name__ == "__main__":
    main()
