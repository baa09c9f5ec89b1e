"""Headings of the reports in English and Chinese."""
from __future__ import annotations

LANGUAGES = ("en", "zh")

_WORDS = {
    "title": ("Operator strategies: comparison and recommendation", "算子实现策略：对比与推荐"),
    "summary": ("Decision table", "决策速查表"),
    "operator": ("Operator", "算子"),
    "decode": ("Decode", "Decode 推荐"),
    "prefill": ("Prefill", "Prefill 推荐"),
    "alternative": ("Alternative", "备选方案"),
    "criterion": ("Criterion", "关键判据"),
    "strategy": ("Strategy", "方案"),
    "verdict": ("Verdict", "结论"),
    "error": ("Largest error", "最大误差"),
    "tolerance": ("Tolerance (rtol, atol)", "容差 (rtol, atol)"),
    "time": ("Time", "耗时"),
    "bytes": ("GM bytes", "GM 搬运量"),
    "tasks": ("Tasks", "任务数"),
    "peak": ("Peak UB", "UB 峰值"),
    "launches": ("Launches", "kernel 启动数"),
    "workspace": ("Workspace", "工作空间"),
    "ops": ("Operations", "操作数"),
    "loops": ("Loops", "循环数"),
    "state": ("Carried tensors", "状态张量"),
    "maturity": ("Maturity", "成熟度"),
    "points": ("Time over the sizes", "各规模耗时"),
    "size": ("Size", "规模"),
    "check": ("At the check point", "验证点"),
    "recommendation": ("Recommendation", "推荐"),
    "none": ("none", "无"),
    "because": ("Deciding numbers", "依据"),
    "claims": ("What the guide says, and what was observed", "指南结论与实测"),
    "claim": ("Claim", "结论"),
    "observed": ("Observed", "实测"),
    "agrees": ("Agrees", "一致"),
    "yes": ("yes", "是"),
    "no": ("no", "否"),
    "open": ("open", "未定"),
    "constraints": ("Constraints", "约束"),
    "met": ("met", "满足"),
    "violated": ("violated", "不满足"),
    "rule": ("Rule", "规则"),
    "severity": ("Severity", "级别"),
    "where": ("Where", "位置"),
    "text": ("Text", "说明"),
    "instead": ("Use instead", "替代方案"),
    "reproduce": ("Reproduce", "复现命令"),
    "conditions": ("Conditions", "条件"),
    "unmodelled": ("Not modelled", "未建模"),
    "assumptions": ("Assumptions", "假设"),
    "pass": ("pass", "通过"),
    "fail": ("fail", "失败"),
    "not_applicable": ("not applicable", "不适用"),
    "recommended": ("recommended", "推荐"),
    "kernel": ("Kernel", "算子核"),
    "operations": ("Operations used", "使用的操作"),
    "profiles": ("Rules per profile", "各规则档位结果"),
    "estimate": ("Estimate", "预估"),
    "tiles": ("Tile shapes", "Tile 形状建议"),
    "matching": ("Matching operator of the guide", "匹配的算子"),
}


def words(language: str) -> dict[str, str]:
    """All headings of a language, "en" or "zh"."""
    at = LANGUAGES.index(language)
    return {key: both[at] for key, both in _WORDS.items()}
