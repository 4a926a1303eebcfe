"""The papers: what each varies, its numbers, claims and figures."""
