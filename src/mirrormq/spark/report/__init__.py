"""Report of the audit: one self-contained HTML file with style and plots."""
