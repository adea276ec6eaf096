-- The shop: 240 customers in six countries, 6,000 orders over seven months, in three currencies.
CREATE TABLE customers (
  id INT UNSIGNED PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  country CHAR(2) NOT NULL,
  joined DATE NOT NULL
) CHARACTER SET utf8mb4;

INSERT INTO customers
SELECT seq,
       CONCAT(ELT(1 + seq % 5, 'Ana', 'Błażej', 'Chloé', 'Dörte', 'Emre'), ' ', ELT(1 + seq % 7, 'Ångström', 'Brown',
              'Çelik', 'Dvořák', 'Eriksson', 'Fontaine', 'Groß'), ' ', seq),
       ELT(1 + seq % 6, 'DE', 'FR', 'PL', 'SE', 'TR', 'US'),
       DATE_ADD('2020-01-01', INTERVAL seq * 6 DAY)
FROM seq_1_to_240;

CREATE TABLE orders (
  id INT UNSIGNED PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  placed_at DATETIME(3) NOT NULL,
  currency CHAR(3) NOT NULL,
  total DECIMAL(10, 2) NOT NULL,
  note TEXT NULL
) CHARACTER SET utf8mb4;

INSERT INTO orders
SELECT seq,
       1 + (seq * 37) % 240,
       DATE_ADD('2024-01-01', INTERVAL seq * 50 MINUTE),
       ELT(1 + (seq DIV 11) % 3, 'EUR', 'USD', 'SEK'),
       CAST(((seq * 7919) % 49000 + 1000) / 100 AS DECIMAL(10, 2)),
       IF(seq % 40 = 0, CONCAT('gift, “fragile” #', seq), NULL)
FROM seq_1_to_6000;
