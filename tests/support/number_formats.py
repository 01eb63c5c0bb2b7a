"""Values of Excel, their number formats, and what Excel shows of them in an English setting."""

import datetime
from typing import Any

_NIGHT = datetime.datetime(2026, 6, 20, 18, 5)
_DAY = datetime.datetime(2026, 6, 20)
_ACCOUNT = '_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)'

NUMBER_FORMATS: list[tuple[Any, str, str]] = [
    # Signs and units that the format adds
    (25, '0"%"', "25%"), (25, r"0\%", "25%"), (0.5, '0.0"%"', "0.5%"), (20, '0" kg"', "20 kg"), (45, '0 "min"', "45 min"),
    (20, '0 "°C"', "20 °C"), (20, "0°", "20°"), (2.5, '0.00" m"', "2.50 m"), (12, '"Nr. "0', "Nr. 12"),
    ("text", '0;-0;0;"<"@">"', "<text>"),
    (0, '0;-0;"none"', "none"), (5, '[Red][>3]"high";[<=3]"low"', "high"), (2, '[Red][>3]"high";[<=3]"low"', "low"), (15, ";;;", ""),
    # Shares and money
    (0.295, "0.0%", "29.5%"), (0.25, "0%", "25%"), (0.25, "0 %", "25 %"), (-0.25, "0%", "-25%"), (8.5, '#,##0.00 "NOK"', "8.50 NOK"),
    (1234.5, _ACCOUNT, "$1,234.50"), (-1234.5, "#,##0.00_);(#,##0.00)", "(1,234.50)"), (1234.5, "[$€-2] #,##0.00", "€ 1,234.50"),
    (1234.5, "#,##0.00 [$€-407]", "1,234.50 €"), (99, "[$£-809]#,##0", "£99"), (-5, "0;(0)", "(5)"),
    # Digits
    (7, "000", "007"), (4711, "00000", "04711"), (470012345, "000-00-0000", "470-01-2345"),
    (4712345678, "(000) 000-0000", "(471) 234-5678"),
    (3.14159265, "0.00", "3.14"), (1234567.891, "#,##0.00", "1,234,567.89"), (1200000, '0.0,,"M"', "1.2M"), (1500, '#,"k"', "2k"),
    (0.5, "# ?/?", "1/2"), (2.5, "# ?/?", "2 1/2"), (12345, "0.00E+00", "1.23E+04"), (5, "0.0#", "5.0"), (3.14, "0.##", "3.14"),
    (42, "@", "42"),
    (1.5, "0", "2"), (2.5, "0", "3"), (2.005, "0.00", "2.01"), (123, "General", "123"), (0.1 + 0.2, "General", "0.3"),
    (1 / 3, "General", "0.333333333"),
    (True, "General", "TRUE"),
    # Times and dates
    (datetime.timedelta(hours=30, minutes=15), "[h]:mm", "30:15"), (datetime.timedelta(minutes=90), "[mm]:ss", "90:00"),
    (datetime.time(9, 30), "h:mm", "9:30"), (datetime.time(18, 30), "h:mm AM/PM", "6:30 PM"),
    (_DAY + datetime.timedelta(seconds=5), "mm:ss.0", "00:05.0"),
    (_DAY, "yyyy", "2026"), (_DAY, "d mmmm yyyy", "20 June 2026"), (_DAY, "dd/mm/yyyy", "20/06/2026"),
    (_DAY, "mmm-yy", "Jun-26"), (_DAY, "ddd", "Sat"),
    (_DAY, "[$-F800]dddd\\, mmmm dd\\, yyyy", "Saturday, June 20, 2026"), (_NIGHT, "yyyy-mm-dd hh:mm", "2026-06-20 18:05"),
    # Excel shows these two by the reader's country
    (_DAY, "mm-dd-yy", "2026-06-20"), (_NIGHT, "m/d/yy h:mm", "2026-06-20 18:05"),
]  # fmt: skip
